-- Gives back what was charged.
-- Uses min (number), keepState, resetAt, stateOf (pair).

-- refundAll gives back cost of a claim, which has been charged at an instant. What was charged before a reset is forgotten.
local function refundAll(asks, claim, at, cost, now)
  if at < resetAt(claim.pair) then
    return
  end
  for i = claim.first, claim.last do
    local ask, l = asks[i], asks[i].limit
    if l.letter ~= 'f' and l.capacity > 0 then
      keepState(claim.pair, l, ask.algorithm.refund(stateOf(claim.pair, l, now), l, now, at, min(cost, l.capacity)))
    end
  end
end
