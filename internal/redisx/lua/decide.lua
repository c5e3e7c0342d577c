-- Decides a request of any limits: reads its pairs, decides, charges or holds, stores.
-- Uses max (number), filled, reply (reply), hint (plainhold), addHold (hold), algorithms, keepState, readPair, savePair, stateOf
-- (pair).
--
-- An ask is one limit of one claim, with the pair that it asks and the state of that as it is now.
local function newAsks(plan, first, now)
  local asks, pairsOf = {}, {}
  for place = 1, plan.keys do
    pairsOf[place] = readPair(KEYS[first + place - 1], plan.names[place], now)
  end
  for i, l in ipairs(plan) do
    asks[i] = {limit = l, algorithm = algorithms[l.letter], pair = pairsOf[l.place], retry = 0, stored = false, state = false}
  end
  return asks, pairsOf
end

-- rewind stores the state of an ask anew if the clock went back, even if nothing is charged: else the same time would be denied
-- again.
local function rewind(ask, now)
  local rewound = ask.algorithm.rewind(stateOf(ask.pair, ask.limit, now), ask.limit, now)
  if rewound then
    keepState(ask.pair, ask.limit, rewound)
  end
end

-- open prepares the state of an ask. A bucket remembers the rate that it is asked at, even if nothing is charged.
local function open(ask, now)
  local l, algorithm, pair = ask.limit, ask.algorithm, ask.pair
  rewind(ask, now)
  local named = algorithm.name and algorithm.name(pair.states[l.name], l, now)
  if named then
    keepState(pair, l, named)
  end
end

-- advance sets the state of an ask as it is at now, if another ask may have changed it.
local function advance(ask, now)
  local stored = ask.pair.states[ask.limit.name]
  if stored ~= ask.stored then
    ask.stored, ask.state = stored, ask.algorithm.advance(stored, ask.limit, now)
  end
end

-- heldFor returns how much requests in flight hold of the limit of an ask.
local function heldFor(ask)
  local holds = ask.pair.holds
  return ask.limit.letter == 'f' and holds.count or holds.cost
end

-- waitFor returns how long an ask has to wait for a cost, and whether only what is held is in the way.
local function waitFor(ask, cost, now)
  local l, held = ask.limit, heldFor(ask)
  local wait = ask.algorithm.wait(ask.state, l, now, cost)
  if wait > 0 or held == 0 then
    return wait, false
  elseif cost + held > l.capacity or ask.algorithm.wait(ask.state, l, now, cost + held) > 0 then
    return hint, true
  end
  return 0, false
end

-- decide sets retry of an ask: 0 if the limit admits what is asked, -1 if it never does. It reports whether holds deny it.
local function decide(ask, now)
  local l = ask.limit
  advance(ask, now)
  if l.asked > l.capacity then
    ask.retry = -1
    return false
  end
  local wait, held = waitFor(ask, l.asked, now)
  ask.retry = max(wait, ask.pair.ban - now)
  return held
end

-- charge adds cost to the state of an ask, even if it does not fit.
local function charge(ask, cost, now)
  if ask.limit.letter == 'f' then
    return
  end
  advance(ask, now)
  ask.state = ask.algorithm.charge(ask.state, ask.limit, now, cost)
  ask.stored = ask.state
  keepState(ask.pair, ask.limit, ask.state)
end

-- commit charges what a claim asks, or holds it.
local function commit(ask, now)
  local l = ask.limit
  if not l.hold then
    charge(ask, l.cost, now)
  elseif l.begins then
    addHold(ask.pair.holds, now, l.cost, 1)
  end
end

-- commitClaims commits the dry runs of a request, or the others. A claim is committed if all its limits admit its cost.
local function commitClaims(asks, now, dryRun)
  local i = 1
  while i <= #asks do
    local fits, claim = true, i
    repeat
      fits = fits and asks[i].retry == 0
      i = i + 1
    until i > #asks or asks[i].limit.begins
    for j = claim, i - 1 do
      local l = asks[j].limit
      if fits and l.dryRun == dryRun and not l.peek then
        commit(asks[j], now)
      end
    end
  end
end

-- decideClaims decides the dry runs of a request, or the others. It reports whether all were admitted, whether there were any, and
-- whether holds deny one.
local function decideClaims(asks, now, dryRun)
  local admitted, any, held = true, false, false
  for i = 1, #asks do
    if asks[i].limit.dryRun == dryRun then
      held = decide(asks[i], now) or held
      admitted, any = admitted and asks[i].retry == 0, true
    end
  end
  return admitted, any, held
end

-- report replies -1, or -3 if holds deny a claim, and then four numbers of each ask: retry, remaining, refill and reset.
local function report(asks, now, denied)
  filled = filled + 1
  reply[filled] = denied and -3 or -1
  for i = 1, #asks do
    local ask = asks[i]
    advance(ask, now)
    local remaining, refill, reset = ask.algorithm.report(ask.state, ask.limit, now)
    local held, ban = heldFor(ask), ask.pair.ban - now
    local least = max(held > 0 and hint or 0, ban)
    reply[filled + 1] = ask.retry
    reply[filled + 2] = ban > 0 and 0 or max(0, remaining - held)
    reply[filled + 3], reply[filled + 4] = max(refill, least), max(reset, least)
    filled = filled + 4
  end
end

-- decideAsks decides a request: none of it is committed unless all limits but those of dry runs admit their cost. It reports
-- whether the request is admitted, and whether holds deny a claim.
local function decideAsks(asks, now)
  local admitted, _, held = decideClaims(asks, now, false)
  if admitted then
    commitClaims(asks, now, false)
  end
  local _, dryRuns, dryHeld = decideClaims(asks, now, true)
  if admitted and dryRuns then
    commitClaims(asks, now, true)
  end
  return admitted, held or dryHeld
end

-- openRequest returns the asks of the request whose keys begin at KEYS[first], and its pairs.
local function openRequest(plan, first, now)
  local asks, pairsOf = newAsks(plan, first, now)
  for i = 1, #asks do
    open(asks[i], now)
  end
  return asks, pairsOf
end

local function savePairs(pairsOf, now)
  for place = 1, #pairsOf do
    savePair(pairsOf[place], now)
  end
end

-- decideRequest decides the request whose keys begin at KEYS[first].
local function decideRequest(plan, first, now)
  local asks, pairsOf = openRequest(plan, first, now)
  local _, held = decideAsks(asks, now)
  savePairs(pairsOf, now)
  report(asks, now, held)
end
