-- Decides a request of any limits: reads its pairs, decides, charges, stores. Uses floorDiv (number), reply, filled (reply),
-- algorithms, readPair, stateOf, keepState, savePair (pair).
--
-- An ask is one limit of one claim, with the pair that it asks and the state of that as it is now.
local function newAsks(plan, first)
  local asks, pairsOf = {}, {}
  for place = 1, plan.keys do
    pairsOf[place] = readPair(KEYS[first + place - 1], plan.names[place])
  end
  for i, l in ipairs(plan) do
    asks[i] = {limit = l, algorithm = algorithms[l.letter], pair = pairsOf[l.place], retry = 0, stored = false, state = false}
  end
  return asks, pairsOf
end

-- open prepares the state of an ask. What is stored changes even if nothing is charged in two cases: after the clock went
-- back, or else the same time would be denied again, and if the request names another rate than the one before.
local function open(ask, now)
  local l, algorithm, pair = ask.limit, ask.algorithm, ask.pair
  local rewound = algorithm.rewind(stateOf(pair, l, now), l, now)
  if rewound then
    keepState(pair, l, rewound)
  end
  local named = algorithm.name and not l.peek and algorithm.name(pair.states[l.name], l, now)
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

-- decide sets retry of an ask: 0 if the limit admits what is asked, -1 if it never does.
local function decide(ask, now)
  local l = ask.limit
  advance(ask, now)
  if l.asked > l.capacity then
    ask.retry = -1
  else
    ask.retry = ask.algorithm.wait(ask.state, l, now, l.asked)
  end
end

-- charge adds the cost of an ask to its state.
local function charge(ask, now)
  advance(ask, now)
  ask.state = ask.algorithm.charge(ask.state, ask.limit, now, ask.limit.cost)
  ask.stored = ask.state
  keepState(ask.pair, ask.limit, ask.state)
end

-- chargeClaims charges the dry runs of a request, or the others. A claim is charged if all its limits admit its cost.
local function chargeClaims(asks, now, dryRun)
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
        charge(asks[j], now)
      end
    end
  end
end

-- decideClaims decides the dry runs of a request, or the others. It reports whether all were admitted, and whether there
-- were any.
local function decideClaims(asks, now, dryRun)
  local admitted, any = true, false
  for i = 1, #asks do
    if asks[i].limit.dryRun == dryRun then
      decide(asks[i], now)
      admitted, any = admitted and asks[i].retry == 0, true
    end
  end
  return admitted, any
end

-- report replies -1, and then four numbers of each ask: retry and what its algorithm reports.
local function report(asks, now)
  filled = filled + 1
  reply[filled] = -1
  for i = 1, #asks do
    local ask = asks[i]
    advance(ask, now)
    reply[filled + 1] = ask.retry
    reply[filled + 2], reply[filled + 3], reply[filled + 4] = ask.algorithm.report(ask.state, ask.limit, now)
    filled = filled + 4
  end
end

-- decideRequest decides the request whose keys begin at KEYS[first]: none of it is charged unless all limits but those of dry
-- runs admit their cost.
local function decideRequest(plan, first, now)
  local asks, pairsOf = newAsks(plan, first)
  for i = 1, #asks do
    open(asks[i], now)
  end
  local admitted = decideClaims(asks, now, false)
  if admitted then
    chargeClaims(asks, now, false)
  end
  local _, dryRuns = decideClaims(asks, now, true)
  if admitted and dryRuns then
    chargeClaims(asks, now, true)
  end
  for place = 1, plan.keys do
    savePair(pairsOf[place], now)
  end
  report(asks, now)
end
