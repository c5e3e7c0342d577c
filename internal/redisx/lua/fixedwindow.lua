-- The state of a FixedWindow: a count that starts at 0 in each window. Mirrors internal/algorithm.
-- Uses floorTo, max, maxExact, min (number), pack, unpackWords, word (word).
--
-- A state has three words: the expiry of its key (see pair.lua), used and start.
local fixedWindow = {}

-- rewind returns w after the clock went back to now, or nil if it did not: the count stands in the current window.
function fixedWindow.rewind(w, l, now)
  local start = floorTo(now, l.micros)
  if start < w.start then
    return {used = w.used, start = start}
  end
end

-- advance returns w as it is at now.
function fixedWindow.advance(w, l, now)
  local start = floorTo(now, l.micros)
  if start > w.start then
    return {used = 0, start = start}
  end
  return w
end

-- ends returns when w no longer matters.
function fixedWindow.ends(w, l)
  return w.start + l.micros
end

-- wait returns how long after now an advanced w admits cost, which is at most the rate.
function fixedWindow.wait(w, l, now, cost)
  if w.used <= l.rate - cost then
    return 0
  end
  return w.start + l.micros - now
end

-- charge adds cost to an advanced w.
function fixedWindow.charge(w, _, _, cost)
  w.used = min(w.used + cost, maxExact)
  return w
end

-- refund returns w, advanced or not, without a charge of cost at an earlier instant, if that was in this window.
function fixedWindow.refund(w, l, _, at, cost)
  if floorTo(at, l.micros) == w.start then
    return {used = max(0, w.used - cost), start = w.start}
  end
  return w
end

-- report returns what an advanced w leaves: remaining, refill, reset.
function fixedWindow.report(w, l, now)
  local remaining = max(0, l.rate - w.used)
  if remaining == l.rate then
    return remaining, 0, 0
  end
  local left = w.start + l.micros - now
  return remaining, left, left
end

function fixedWindow.decode(s)
  if #s ~= 3 * word then
    return nil
  end
  local _, used, start = unpackWords('<I8I8I8', s)
  if max(used, start) <= maxExact then
    return {used = used, start = start}
  end
end

function fixedWindow.encode(w, expires)
  return pack('<I8I8I8', expires, w.used, w.start)
end

function fixedWindow.empty()
  return {used = 0, start = 0}
end

function fixedWindow.full(l, now)
  return {used = l.rate, start = floorTo(now, l.micros)}
end
