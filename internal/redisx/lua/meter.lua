-- A meter is one limit of one claim while a script is at work on it: what was asked, and the state of the pair. See
-- core/meter.go. Its text is, apart by spaces:
--
--   new     2 if it begins a request, 1 if it begins a claim, else 0
--   key     the place of its key in KEYS
--   flags   1 if it is a peek, 2 if it is a dry run, 3 if both, else 0
--   cost    of the claim
--   asked   the cost of all claims that charge this state
--
-- and then that of its limit:
--
--   kind    b token bucket, w fixed window, s sliding window, l sliding log; and the period in microseconds
--   rate
--   capacity
--   unit    microseconds per tick (b) or per sub-bucket (s), else 0
local limits = {} -- by their texts: the requests of a run are often of the same

local function limitOf(text)
  local l = limits[text]
  if not l then
    local kind, letter, micros, rate, capacity, unit = match(text, '^((%a)(%d+)) (%d+) (%d+) (%d+)$')
    unit = tonumber(unit)
    l = {
      kind = kind, letter = letter, algorithm = algorithmOf(letter), section = ';' .. kind .. ',',
      micros = tonumber(micros), rate = tonumber(rate), capacity = tonumber(capacity), tick = unit, width = unit,
    }
    if letter == 'b' then
      l.period = ceilDiv(l.micros, unit)
    end
    limits[text] = l
  end
  return l
end

local function newMeter(text)
  local new, key, flags, cost, asked, limit = match(text, '^(%d) (%d+) (%d) (%d+) (%d+) (.+)$')
  return {
    new = new, pair = pairOf(key), limit = limitOf(limit), cost = tonumber(cost), asked = tonumber(asked),
    peek = flags == '1' or flags == '3', dryRun = flags >= '2', retry = 0, opened = false, state = false,
  }
end

-- keep makes state the one that is kept.
local function keep(t, state, now)
  local pair = t.pair
  local l = t.limit
  pair.states[l.kind] = state
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
  pair.states[l.kind] = state
  return state
end

-- load reads the state of any other limit, likewise.
local function load(t, now)
  local pair, l = t.pair, t.limit
  if not pair.value then
    fetch(pair)
  end
  local state = section(pair, l, now)
  if pair.broken or state == false then
    repaired = repaired + 1
    state = l.algorithm.full(l, now)
    keep(t, state, now)
  else
    state = state or l.algorithm.empty(l)
    pair.states[l.kind] = state
  end
  return state
end

-- stored returns the state as it is kept.
local function stored(t, now)
  local state = t.pair.states[t.limit.kind]
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
  if t.pair.states[t.limit.kind] ~= t.opened then
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

-- report appends retry, remaining, refill and reset of each meter to reply.
local function report(meters, now, reply)
  local n = #reply
  for i = 1, #meters do
    local t = meters[i]
    reopen(t, now)
    reply[n + 1] = t.retry
    reply[n + 2], reply[n + 3], reply[n + 4] = t.limit.algorithm.report(t.state, t.limit, now)
    n = n + 4
  end
end

-- clock returns the server's clock in microseconds since 1970. Tests shift it by the first argument.
local function clock()
  local time = call('TIME')
  return time[1] * 1000000 + time[2] + ARGV[1]
end
