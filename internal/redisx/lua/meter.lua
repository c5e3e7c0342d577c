-- A meter is one limit of one claim while a script is at work on it: what was asked, and the state of the pair. See
-- core/meter.go. Its text is, apart by spaces:
--
--   new     2 if it begins a request, 1 if it begins a claim, else 0
--   key     the place of its key in KEYS
--   flags   1 if it is a peek, 2 if it is a dry run, 3 if both, else 0
--   cost    of the claim
--   asked   the cost of all claims that charge this state
--   kind    b token bucket, w fixed window, s sliding window, l sliding log; and the period in microseconds
--   rate
--   capacity
--   unit    microseconds per tick (b) or per sub-bucket (s), else 0
local function newMeter(text)
  local new, key, flags, cost, asked, letter, micros, rate, capacity, unit =
    match(text, '^(%d) (%d+) (%d) (%d+) (%d+) (%a)(%d+) (%d+) (%d+) (%d+)$')
  unit = tonumber(unit)
  local l = {micros = tonumber(micros), rate = tonumber(rate), capacity = tonumber(capacity), tick = unit, width = unit}
  if letter == 'b' then
    l.period = ceilDiv(l.micros, unit)
  end
  return {
    new = tonumber(new), pair = pairOf(KEYS[tonumber(key)]), algorithm = algorithmOf(letter), kind = letter .. micros, limit = l,
    cost = tonumber(cost), asked = tonumber(asked),
    peek = flags == '1' or flags == '3', dryRun = flags == '2' or flags == '3',
    retry = 0,
  }
end

-- endOf returns when a state no longer matters, in milliseconds.
local function endOf(t, state, now)
  return ceilDiv(now + t.algorithm.lasts(state, t.limit, now), 1000)
end

-- loadLog reads the state of a sliding log. One that makes no sense becomes a limit just used up, which neither admits
-- anew nor denies for ever.
local function loadLog(t, now)
  local size = redis.pcall('ZCARD', t.pair.key)
  local isSet = not isWrongType(size)
  local state = isSet and not t.pair.broken and t.algorithm.load(t.pair.key, t.limit, now, size)
  if not state then
    repaired = repaired + 1
    t.pair.broken = t.pair.broken or not isSet
    state = t.algorithm.full(t.pair.key, t.limit, now, isSet)
  end
  t.pair.states[t.kind] = state
end

-- load reads the state of any other limit, likewise.
local function load(t, now)
  local pair = t.pair
  if not pair.value then
    pair.value, pair.ends = valueOf(pair), {}
    if not pair.value then
      pair.value, pair.broken = '', true
    end
  end
  local state, ends = section(pair, t.kind, now)
  if pair.broken or state == false then
    repaired = repaired + 1
    state = t.algorithm.full(t.limit, now)
    put(pair, t.kind, state, endOf(t, state, now))
  elseif state then
    pair.states[t.kind], pair.ends[t.kind] = state, ends
  else
    pair.states[t.kind] = t.algorithm.empty(t.limit)
  end
end

-- stored returns the state as it is kept.
local function stored(t, now)
  if not t.pair.states[t.kind] then
    if t.algorithm.load then
      loadLog(t, now)
    else
      load(t, now)
    end
  end
  return t.pair.states[t.kind]
end

-- keep makes state the one that is kept.
local function keep(t, state, now)
  if t.algorithm.load then
    t.pair.states[t.kind] = state
  else
    put(t.pair, t.kind, state, endOf(t, state, now))
  end
end

-- open sets t.state, the state as it is at now. If the clock went back, what is kept changes as well, even if nothing is
-- charged: else the same time would be denied again.
local function open(t, now)
  local state = stored(t, now)
  local rewound = t.algorithm.rewind(state, t.limit, now)
  if rewound then
    state = rewound
    keep(t, state, now)
  end
  t.opened, t.state = state, t.algorithm.settle(state, t.limit, now)
end

-- reopen opens t again if another meter has changed its state.
local function reopen(t, now)
  if t.pair.states[t.kind] ~= t.opened then
    open(t, now)
  end
end

-- decide sets t.retry: 0 if the limit admits what is asked, -1 if it never does.
local function decide(t, now)
  if t.asked > t.limit.capacity then
    t.retry = -1
  else
    t.retry = t.algorithm.wait(t.state, t.limit, now, t.asked)
  end
end

-- charge adds the cost to the state.
local function charge(t, now)
  t.state = t.algorithm.charge(t.state, t.limit, now, t.cost)
  keep(t, t.state, now)
  t.opened = t.state
end

-- refund gives back the cost, charged at an earlier instant.
local function refund(t, now, at)
  local cost = min(t.cost, t.limit.capacity)
  if cost > 0 and not t.peek then
    keep(t, t.algorithm.refund(stored(t, now), t.limit, now, at, cost), now)
  end
end

-- report appends retry, remaining, refill and reset of each meter to reply.
local function report(meters, now, reply)
  for _, t in ipairs(meters) do
    reopen(t, now)
    local n = #reply
    reply[n + 1] = t.retry
    reply[n + 2], reply[n + 3], reply[n + 4] = t.algorithm.report(t.state, t.limit, now)
  end
end

-- clock returns the server's clock in microseconds since 1970. Tests shift it by the first argument.
local function clock()
  local time = call('TIME')
  return time[1] * 1000000 + time[2] + ARGV[1]
end

local function saveAll(now)
  for _, pair in pairs(pairsByKey) do
    if pair.dirty then
      save(pair, now)
    end
  end
end
