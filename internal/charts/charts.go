// Package charts has the charts in SVG and the looks of the live page and of the report of a replay.
package charts

import _ "embed"

// Script draws charts in the elements that it is given. It needs nothing else and loads nothing.
//
//go:embed chart.js
var Script string

// Style is for light and dark screens, wide and narrow ones.
//
//go:embed style.css
var Style string

// Icon is an SVG image.
//
//go:embed icon.svg
var Icon string
