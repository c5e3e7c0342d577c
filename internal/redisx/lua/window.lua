-- The state of a FixedWindow: a count that starts at 0 in each window. Mirrors internal/algorithm.
--
-- Windows are multiples of the period since 1970, or the windows of a calendar. A calendar's limit has the starts of the windows
-- around now: the process computes them, and the server's clock chooses.
--
-- Its words: kind, used, start, and end, which is the start of the next window. It has no siblings.
local window = {size = 4, isRead = true}

-- latest returns the latest end of a grant. If the clock went back, a grant of a window after the next one moves to the current one.
function window.latest(pair, cell, now)
  for _, l in ipairs(pair) do
    if l.kind == cell.of then
      local _, last = l.windowOf(now)
      local _, nextLast = l.windowOf(last)
      return cell.ends > nextLast and last or cell.ends
    end
  end
  return cell.ends
end

-- refund takes back a charge of cost at an earlier instant, if that was in this window.
function window.refund(l, _, at, _, cost)
  local _, used, start, ends = l.words()
  if at >= start and at < ends then
    l.set(max(0, used - cost))
    store(l)
  end
end

function window.ends(text)
  local _, used, _, ends = unpackWords(fourWords, text)
  return used == 0 and 0 or ends
end

function window.compile(l)
  local kind, micros, starts = l.kind, l.micros, l.starts
  local used, start, ends = 0, 0, 0

  function l.words(...) return kind, used, start, ends, ... end
  function l.set(count) used = count end
  function l.used() return used end
  function l.untilUsed(now, n) return used <= n and 0 or ends - now end
  function l.grantEnds() return ends end

  -- windowOf returns the start and the end of the window of an instant. Windows before a calendar's first start count as one.
  function l.windowOf(at)
    if not starts then
      local first = at - at % micros
      return first, first + micros
    end
    local i = #starts - 1
    while i > 0 and starts[i] > at do
      i = i - 1
    end
    return starts[i] or 0, starts[i + 1]
  end

  -- open brings the window to now, and returns what is used. After the clock went back, the next window is kept, but a later one becomes
  -- the current one. No window of a calendar is more than twice as long as the one before it.
  function l.open(text, place, now)
    local itsKind, count, since, till = unpackWords(fourWords, text, place)
    local first, last = l.windowOf(now)
    local isLate, isNext = since > last, since > first and since <= last
    if itsKind ~= kind or count > maxExact or isLate and not l.state or isNext and (till <= since or till - since > 2 * (last - first)) then
      return nil
    elseif count == 0 or not isNext then
      count, since, till = since < first and 0 or count, first, last
    end
    used, start, ends = count, since, till
    if isLate then
      rewrite(l)
    end
    return used
  end

  -- charge adds cost, even if it does not fit.
  function l.charge(_, cost)
    used = min(used + cost, maxExact)
    return ends
  end
end

algorithms[4] = window
