-- The state of a FixedWindow: a count that starts at 0 in each window. See core/fixedwindow.go.
-- No function but charge changes the window that it is given.
local function fixedWindow()
  -- rewind returns w after the clock went back to now, or nil if it did not: the count stands in the current window.
  local function rewind(w, l, now)
    local start = floorTo(now, l.micros)
    if start < w.start then
      return {used = w.used, start = start, ends = 0}
    end
  end

  -- settle returns w as it is at now.
  local function settle(w, l, now)
    local start = floorTo(now, l.micros)
    if start > w.start then
      return {used = 0, start = start, ends = 0}
    end
    return {used = w.used, start = start, ends = 0}
  end

  -- lasts returns for how many microseconds after now w matters.
  local function lasts(w, l, now)
    return w.start + l.micros - now
  end

  return {
    rewind = rewind, settle = settle, lasts = lasts,

    -- wait returns how long after now a settled w admits cost, which is at most the rate.
    wait = function(w, l, now, cost)
      if w.used <= l.rate - cost then
        return 0
      end
      return lasts(w, l, now)
    end,

    -- charge puts cost into a settled w.
    charge = function(w, _, _, cost)
      w.used = w.used + cost
      return w
    end,

    -- refund returns w, settled or not, without a charge of cost at an earlier instant, if that was in this window.
    refund = function(w, l, _, at, cost)
      if floorTo(at, l.micros) == w.start then
        return {used = max(0, w.used - cost), start = w.start, ends = 0}
      end
      return w
    end,

    -- report returns what a settled w leaves: remaining, refill, reset.
    report = function(w, l, now)
      local remaining = max(0, l.rate - w.used)
      if remaining == l.rate then
        return remaining, 0, 0
      end
      return remaining, lasts(w, l, now), lasts(w, l, now)
    end,

    read = function(s, section)
      local used, start = unpackWords('<I8I8', s, section.start + 2 * word)
      if max(used, start) <= maxExact then
        return {used = used, start = start, ends = 0}
      end
    end,
    write = function(w, kind)
      return packWords('<I8I8I8I8', kind, w.ends, w.used, w.start)
    end,
    empty = function()
      return {used = 0, start = 0, ends = 0}
    end,
    full = function(l, now)
      return {used = l.rate, start = floorTo(now, l.micros), ends = 0}
    end,
  }
end
