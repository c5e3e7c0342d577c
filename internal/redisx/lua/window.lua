-- The state of a FixedWindow: a count that starts at 0 in each window. Mirrors internal/algorithm.
--
-- Windows are multiples of the period since 1970, or the windows of a calendar. A calendar's limit has the starts of the windows
-- around now: the process computes them, and the server's clock chooses.
--
-- Its words: kind, used, start, and end, which is the start of the next window. It has no siblings.
local window = {size = 4, isRead = true}

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

-- latest returns the latest end of a grant. If the clock went back, a grant of a window after the next one moves to the current one.
function window.latest(pair, cell, now)
  for _, l in ipairs(pair) do
    local _, last = windowOf(l, now)
    if l.kind == cell.of and cell.ends > select(2, windowOf(l, last)) then
      return last
    end
  end
  return cell.ends
end

-- untilUsed returns how long after now an opened window takes to count no more than n.
function window.untilUsed(l, now, n)
  return l.used <= n and 0 or l.ends - now
end

-- open brings the window to now, and returns what is used. After the clock went back, the next window is kept, but a later one becomes
-- the current one.
function window.open(l, text, place, now)
  local kind, used, start, ends = unpackWords(fourWords, text, place)
  local first, last = windowOf(l, now)
  local isLate, isNext = start > last, start > first and start <= last
  if kind ~= l.kind or used > maxExact or isLate and not l.state or isNext and (ends <= start or ends > maxExact) then
    return nil
  elseif start < first or used == 0 then
    used, start, ends = 0, first, last
  elseif start == first or isLate then
    start, ends = first, last
  end
  l.used, l.start, l.ends = used, start, ends
  if isLate then
    rewrite(l)
  end
  return used
end

-- charge adds cost, even if it does not fit.
function window.charge(l, _, cost)
  l.used = min(l.used + cost, maxExact)
  return l.ends
end

-- refund takes back a charge of cost at an earlier instant, if that was in this window.
function window.refund(l, _, at, _, cost)
  if l.used > 0 and at >= l.start and at < l.ends then
    l.used = max(0, l.used - cost)
    store(l)
  end
end

function window.ends(text)
  local _, used, _, ends = unpackWords(fourWords, text)
  return used == 0 and 0 or ends
end

function window.compile(l)
  function l.words(...) return l.kind, l.used, l.start, l.ends, ... end
end

algorithms[4] = window
