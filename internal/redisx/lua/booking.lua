-- Requests that wait for their turn. Mirrors internal/algorithm.
--
-- A booking is a charge of a bucket that is more than full until the turn of the request: that is all that is stored.

-- raised returns the level of the bucket, which is at now, as if it held something that is gone when a ban ends:
-- requests that wait for the end of the ban are spaced from there.
local function raised(w, o, l, now)
  local ban = anyRare and l.pair.bannedUntil - now or 0
  if ban <= 0 then
    return w[o + 1]
  end
  return max(w[o + 1], min(maxExact, l.rate * ceilDiv(ban + now - w[o + 2], l.unit)))
end

-- canBook reports whether the bucket, which is at now, can hold cost on top of what is booked.
function tokenBucket.canBook(w, o, l, now, cost)
  return raised(w, o, l, now) <= maxExact - cost * l.period
end

-- book charges cost for a request that waits for its turn, which is a whole tick.
function tokenBucket.book(w, o, l, now, cost)
  local level = raised(w, o, l, now)
  w[o + 1] = level
  tokenBucket.charge(w, o, l, now, cost)
  local over = w[o + 1] - l.full
  if over > 0 then
    w[o + 1] = min(maxExact, l.full + l.rate * ceilDiv(over, l.rate))
  end
  return tokenBucket.ends(w, o, l)
end

-- stillCounts returns how much of a charge of cost still counts for a request with a turn: all if nothing was charged
-- behind it, and nothing while others wait behind it.
local function stillCounts(w, o, l, now, at, turn, cost)
  local level, last, rate = w[o + 1], w[o + 2], w[o + 4]
  local all, known = min(cost, l.capacity) * l.period, rate == l.rate and w[o + 5] < 4
  if at - last >= l.unit then -- the clock has gone back since
    turn = turn - (at - last)
  end
  if turn >= last and level - l.full <= l.rate * ceilDiv(turn - last, l.unit) and (known or at >= last) then
    return all
  elseif not known or level - l.full > rate * floorDiv(max(0, now - last), l.unit) then
    return 0
  end
  local ticks = ceilDiv(max(0, now - turn), l.unit)
  return ticks <= floorDiv(all, rate) and all - ticks * rate or 0
end

-- refundTurn is refund for a bucket whose requests may wait.
function tokenBucket.refundTurn(w, o, l, now, at, turn, cost)
  mend(w, o, l, now)
  toTicks(w, o, l)
  local refunded, last = stillCounts(w, o, l, now, at, turn, cost), w[o + 2]
  if at < last then
    lowerLows(w, o, lowFor(w, o, at), refunded)
    if refunded > 0 then -- the charges since then found less in the bucket
      w[o + 3] = last
    end
  end
  w[o + 1] = max(0, w[o + 1] - refunded)
end
