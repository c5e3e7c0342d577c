-- The state of a FixedWindow: a count that starts at 0 in each window. Mirrors internal/algorithm.
--
-- Windows are multiples of the period since 1970, or the windows of a calendar. A calendar's limit has the starts of
-- the windows around now: the process computes them, and the server's clock chooses.
--
-- The words of its record: used (+1), start (+2), and end (+3), which is the start of the next window.
local fixedWindow = {size = 4, replied = 3}
local firstCalendar = 3 * 140737488355328 * 16 -- 3 · 2^47: the least kind of a calendar
local longest = {[0] = 0, 3, 10, 33, 368, 0, 0, 0} -- days that no window of a calendar's unit exceeds

-- windowOf returns the start and the end of the window of an instant. Windows before a calendar's first start count as one.
local function windowOf(l, at)
  local starts = l.starts
  if not starts then
    local start = at - at % l.micros
    return start, start + l.micros
  end
  local i = #starts - 1
  while i > 0 and starts[i] > at do
    i = i - 1
  end
  return starts[i] or 0, starts[i + 1]
end

-- load brings the window to now, and reports whether it must be stored even if nothing is charged. After the clock went
-- back, the next window is kept, and a later one becomes the current window.
function fixedWindow.load(w, o, l, now)
  local start, current, ends, _ = w[o + 2], windowOf(l, now)
  if w[o + 1] > maxExact then
    return repair(w, o, l, now)
  elseif current > start or w[o + 1] == 0 and not (anyRare and hasGrant(w, o, fixedWindow.size)) then
    w[o + 1], w[o + 2], w[o + 3] = 0, current, ends
    if anyRare then
      removeGrants(w, o, fixedWindow.size)
    end
  elseif start > ends then
    w[o + 2], w[o + 3] = current, ends
    return true
  elseif start > current then
    _, w[o + 3] = windowOf(l, start)
  else
    w[o + 3] = ends
  end
  return false
end

-- free returns what is neither used nor taken away, and more than the rate if more was granted.
local function free(w, o, l)
  return l.rate + (anyRare and l.rate > 0 and grantOf(w, o, fixedWindow.size) or 0) - w[o + 1]
end

-- wait returns how long after now the window admits cost, or -1 for never: the next window has no grant.
function fixedWindow.wait(w, o, l, now, cost)
  if cost <= free(w, o, l) then
    return 0
  end
  return cost > l.rate and -1 or w[o + 3] - now
end

-- charge adds cost, even if it does not fit.
function fixedWindow.charge(w, o, _, _, cost)
  w[o + 1] = min(w[o + 1] + cost, maxExact)
  return w[o + 3]
end

-- finish charges what ended holds become, a list of instants and costs, each in the window of its instant.
function fixedWindow.finish(w, o, l, held, _, ended)
  for n = 1, #ended, 2 do
    local used, start, ends = w[o + 1], w[o + 2], w[o + 3]
    fixedWindow.load(w, o, l, ended[n])
    if held or w[o + 1] > 0 then
      fixedWindow.charge(w, o, l, ended[n], ended[n + 1])
    else
      w[o + 1], w[o + 2], w[o + 3] = used, start, ends
    end
  end
end

function fixedWindow.keep()
end

-- refund takes back a charge of cost at an earlier instant, if that was in this window.
function fixedWindow.refund(w, o, _, _, at, cost)
  if at >= w[o + 2] and at < w[o + 3] then
    w[o + 1] = max(0, w[o + 1] - cost)
  end
end

-- grant adds n requests, which may be fewer than none, until the window ends.
function fixedWindow.grant(w, o, l, now, n)
  fixedWindow.load(w, o, l, now)
  if hasGrant(w, o, fixedWindow.size) then -- the window may have moved
    w[o + fixedWindow.size + 2] = w[o + 3]
  end
  addGrant(w, o, fixedWindow.size, n, w[o + 3])
end

-- remaining returns how many requests fit.
function fixedWindow.remaining(w, o, l)
  return max(0, free(w, o, l))
end

-- report returns what is used, and the wait for more requests.
function fixedWindow.report(w, o, _, now)
  return w[o + 1], w[o + 3] - now
end

-- ends returns the instant at which the window no longer matters. If cost more is charged at an instant, that is
-- instead the end of the window of that instant.
function fixedWindow.ends(w, o, l, at)
  local ends = w[o + 3]
  if at and at >= ends then
    local _, last = windowOf(l, at)
    return last
  end
  return ends
end

-- discard removes what is stored beside the record: its grant.
function fixedWindow.discard(w, o)
  removeGrants(w, o, fixedWindow.size)
end

-- empty writes an empty record.
function fixedWindow.empty(w, o, l)
  w[o], w[o + 1], w[o + 2], w[o + 3] = l.kind, 0, 0, 0
end

-- forget forgets what was charged, but not which window it is: a request that does not name the limit cannot know a calendar's.
function fixedWindow.forget(w, o, l)
  w[o], w[o + 1] = l.kind, 0
end

-- fill makes the record one of a limit that is just used up.
function fixedWindow.fill(w, o, l, now)
  w[o + 1], w[o + 2], w[o + 3] = l.rate, windowOf(l, now)
end

-- limitOf returns the limit of a record that no request names. A calendar's knows this window, and where the next one starts.
function fixedWindow.limitOf(w, o)
  local of, ends = floorDiv(w[o], 16), w[o + 3]
  if w[o] < firstCalendar then
    return {micros = of, rate = 0}
  end
  return {starts = {w[o + 2], ends, ends + longest[of % 8] * 86400000000}, rate = 0}
end
