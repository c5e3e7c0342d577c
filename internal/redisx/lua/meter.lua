-- A meter is one limit of one claim while a script is at work on it: what was asked, and the state of the pair. See
-- core/meter.go. The request's keys begin at KEYS[first].
local letters = {[0] = 'b', 'w', 's', 'l'}

local function newMeter(l, first)
  local flags = l.head % 8
  l.letter = letters[l.kind % 16 / 4]
  l.algorithm, l.name = algorithmOf(l.letter), format('%d', l.kind)
  l.tick, l.width = l.unit, l.unit
  l.period = l.letter == 'b' and ceilDiv(l.micros, l.tick)
  return {
    limit = l, pair = pairOf(KEYS[first + l.place - 1]), new = flags % 2 == 1, cost = l.cost, asked = l.asked,
    peek = flags % 4 >= 2, dryRun = flags >= 4, retry = 0, opened = false, state = false,
  }
end

local function newMeters(plan, first)
  local meters = {}
  for i, l in ipairs(plan) do
    meters[i] = newMeter(l, first)
  end
  return meters
end

-- keep makes state the one that is kept.
local function keep(t, state, now)
  local pair, l = t.pair, t.limit
  pair.states[l.name] = state
  if l.letter ~= 'l' then
    state.ends = ceilDiv(now + l.algorithm.lasts(state, l, now), 1000)
    pair.dirty = true
  end
end

-- loadLog reads the state of a sliding log. One that makes no sense becomes a limit just used up, which neither admits
-- anew nor denies for ever.
local function loadLog(t, now)
  local pair, l = t.pair, t.limit
  local size = redis.pcall('ZCARD', pair.key)
  local isSet = not isWrongType(size)
  local state = isSet and not pair.broken and l.algorithm.load(pair.key, l, now, size)
  if not state then
    repaired = repaired + 1
    pair.broken = pair.broken or not isSet
    state = l.algorithm.full(pair.key, l, now, isSet)
  end
  pair.states[l.name] = state
  return state
end

-- load reads the state of any other limit, likewise.
local function load(t, now)
  local pair, l = t.pair, t.limit
  if not pair.value then
    fetch(pair, now)
  end
  pair.asked[#pair.asked + 1] = l
  local state = section(pair, l, now)
  if pair.broken or state == false then
    repaired = repaired + 1
    state = l.algorithm.full(l, now)
    keep(t, state, now)
  else
    state = state or l.algorithm.empty(l)
    pair.states[l.name] = state
  end
  return state
end

-- stored returns the state as it is kept.
local function stored(t, now)
  local state = t.pair.states[t.limit.name]
  if state then
    return state
  elseif t.limit.letter == 'l' then
    return loadLog(t, now)
  end
  return load(t, now)
end

-- open sets t.state, the state as it is at now. If the clock went back, what is kept changes as well, even if nothing is
-- charged: else the same time would be denied again.
local function open(t, now)
  local state, l = stored(t, now), t.limit
  local rewound = l.algorithm.rewind(state, l, now)
  if rewound then
    state = rewound
    keep(t, state, now)
  end
  t.opened, t.state = state, l.algorithm.settle(state, l, now)
end

-- reopen opens t again if another meter has changed its state.
local function reopen(t, now)
  if t.pair.states[t.limit.name] ~= t.opened then
    open(t, now)
  end
end

-- decide sets t.retry: 0 if the limit admits what is asked, -1 if it never does.
local function decide(t, now)
  if t.asked > t.limit.capacity then
    t.retry = -1
  else
    t.retry = t.limit.algorithm.wait(t.state, t.limit, now, t.asked)
  end
end

-- charge adds the cost to the state.
local function charge(t, now)
  t.state = t.limit.algorithm.charge(t.state, t.limit, now, t.cost)
  t.opened = t.state
  keep(t, t.state, now)
end

-- report appends -1, and then four numbers of each meter, to reply: retry and what its algorithm reports.
local function report(meters, now)
  filled = filled + 1
  reply[filled] = -1
  for i = 1, #meters do
    local t = meters[i]
    reopen(t, now)
    reply[filled + 1] = t.retry
    reply[filled + 2], reply[filled + 3], reply[filled + 4] = t.limit.algorithm.report(t.state, t.limit, now)
    filled = filled + 4
  end
end
