-- The state of a FixedWindow: a count that starts at 0 in each window. Mirrors internal/algorithm.
--
-- The words of its record: used (+1), start (+2).
local fixedWindow = {size = 3}

-- load brings the window to now, and reports whether it must be stored even if nothing is charged. After the clock went back, a
-- start of at most one period ahead is kept, and one further ahead becomes the current window.
function fixedWindow.load(w, o, l, now)
  local start, current = w[o + 2], now - now % l.micros
  if w[o + 1] > maxExact then
    return repair(w, o, l, now)
  elseif current > start or w[o + 1] == 0 and not (anyRare and hasGrant(w, o, fixedWindow.size)) then
    w[o + 1], w[o + 2] = 0, current
  elseif start > now + l.micros then
    w[o + 2] = current
    return true
  end
  return false
end

-- used returns what counts as used: less than none if more was granted.
function fixedWindow.used(w, o, now)
  return w[o + 1] - (anyRare and grantOf(w, o, fixedWindow.size, now) or 0)
end

-- wait returns how long after now the window admits cost, which is at most the rate.
function fixedWindow.wait(w, o, l, now, cost)
  local used = w[o + 1]
  if anyRare then
    used = fixedWindow.used(w, o, now)
  end
  if used <= l.rate - cost then
    return 0
  end
  return w[o + 2] + l.micros - now
end

-- charge adds cost, even if it does not fit.
function fixedWindow.charge(w, o, _, _, cost)
  w[o + 1] = min(w[o + 1] + cost, maxExact)
end

-- finish charges what ended holds become, a list of instants and costs, each in the window of its instant.
function fixedWindow.finish(w, o, l, held, _, ended)
  for n = 1, #ended, 2 do
    local used, start = w[o + 1], w[o + 2]
    fixedWindow.load(w, o, l, ended[n])
    if held or w[o + 1] > 0 then
      fixedWindow.charge(w, o, l, ended[n], ended[n + 1])
    else
      w[o + 1], w[o + 2] = used, start
    end
  end
end

function fixedWindow.keep()
end

-- refund takes back a charge of cost at an earlier instant, if that was in this window.
function fixedWindow.refund(w, o, l, _, at, cost)
  if at - at % l.micros == w[o + 2] then
    w[o + 1] = max(0, w[o + 1] - cost)
  end
end

-- grant adds n requests, which may be fewer than none, until the window ends.
function fixedWindow.grant(w, o, l, now, n)
  addGrant(w, o, fixedWindow.size, now, n, w[o + 2] + l.micros)
end

-- remaining returns how many requests fit.
function fixedWindow.remaining(w, o, l, now)
  return max(0, l.rate - fixedWindow.used(w, o, now))
end

-- report returns what is used, and the waits for one more request and for all.
function fixedWindow.report(w, o, l, now)
  local left = w[o + 2] + l.micros - now
  return anyRare and fixedWindow.used(w, o, now) or w[o + 1], left, left
end

-- ends returns the instant at which the window no longer matters. If cost more is charged at an instant, that is instead the end of
-- the window of that instant.
function fixedWindow.ends(w, o, l, at)
  return (at and at - at % l.micros or w[o + 2]) + l.micros
end

-- empty writes an empty record.
function fixedWindow.empty(w, o, l)
  w[o], w[o + 1], w[o + 2] = l.kind, 0, 0
end

-- fill makes the record one of a limit that is just used up.
function fixedWindow.fill(w, o, l, now)
  w[o + 1], w[o + 2] = l.rate, now - now % l.micros
end

-- limitOf returns the limit of a record that no request names.
function fixedWindow.limitOf(w, o)
  return {micros = floorDiv(w[o], 16), rate = 0}
end
