-- A plan: the shape of a request, without its keys and its numbers.
--
-- The library keeps plans that it has read. The text of a plan is a letter, t, or p if the request charges nothing, and six numbers
-- for each limit of each op, as varints: see https://protobuf.dev/programming-guides/encoding/#varints. An op without limits, which is a
-- ban or a reset, has six as well.
--
--   head      1 if an op begins + 2 for a dry run + 4 · what the op does: see op.lua + 64 · place of its key among the request's
--             keys, from 1
--   kind      see pair.lua; 0 for a limit in flight, and for no limit
--   rate
--   capacity
--   unit      microseconds per tick of a token bucket, or per sub-bucket of a sliding window; the place of the key of a sliding log
--   ban       microseconds that a token bucket denies for once it is used up, else 0
--
-- For a calendar window, the unit is how many starts of windows follow these numbers, in ascending order, and the ban is the
-- process's clock, as the microseconds since 1970 at which its minute began.
--
-- What differs between requests of one plan are four words for each op, beside the keys:
--
--   cost      what is asked, or what was charged or held
--   final     the final cost, or for a ban its microseconds, or how much a loan may charge ahead; a grant is of cost - final requests
--   at        when it was charged, held or last renewed, in microseconds since 1970; 0 if it is not known
--   turn      of an op that is decided, for how many microseconds it may wait for its turn; of any other, 1 plus for how many it
--             waited; 0 if it cannot or could not wait
local take, peek, lend, hold, adjust, release, renew, ban, grant, reset = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9

-- newPair returns a pair without limits. Its blank is the value of a pair with just a new state of each of its limits, from place l.place.
local function newPair()
  local pair = {kinds = {}, blank = pack(oneWord, 0)}
  forget(pair)
  sumCells(pair)
  return pair
end

-- addState has a pair have the state of a limit, and returns whether it has one of that kind. The pair's function words returns the words
-- of all its states: for a pair with one limit, it is the function of the limit.
local function addState(pair, l)
  local shared = pair.kinds[-l.kind] -- miniredis allocates all up to a large number that is a positive index
  pair.kinds[-l.kind] = true
  for _, other in ipairs(pair) do
    if other.kind == l.kind and other.sibling == l.sibling then
      return true
    end
  end
  if not l.isStateless then
    local before, words = pair.words, l.words
    l.place, pair.blank, pair.count = #pair.blank + 1, pair.blank .. l.blank, #pair + 1
    table.insert(pair, l)
    pair.form = formats[#pair.blank / word]
    pair.words = before and function(...) return before(words(...)) end or words
  end
  return shared
end

-- newPlan reads a plan. Its ops are those that settle, the dry runs, and the others, which are decided together. Its list decided has the
-- limits of the ops that are decided. A plan is plain if it only takes, only peeks or only lends, without dry runs, its limits are in the
-- order of their pairs, each limit has a state of its own, and a pair is no longer than maxWords: unless its text begins with a minus sign.
local function newPlan(text)
  local plan = {text = text, pairs = {}, ops = {}, settled = {}, together = {}, dry = {}, decided = {}, keys = 0, isRead = true}
  local numbers, isPlain = {}, sub(text, 1, 1) ~= '-'
  local letter = isPlain and 1 or 2
  local n, scale = 0, 1
  for i = letter + 1, #text do
    local b = byte(text, i)
    n, scale = n + b % 128 * scale, 128 * scale
    if b < 128 then
      numbers[#numbers + 1] = n
      n, scale = 0, 1
    end
  end
  local first, op = 1, nil
  while first <= #numbers do
    local head, kind, rate, capacity, unit, banned = unpack(numbers, first, first + 5)
    local flags, starts, l = head % 64, nil, nil
    local place = (head - flags) / 64
    first = first + 6
    if kind >= firstCalendar then
      starts = {unpack(numbers, first, first + unit - 1)}
      first, plan.clock = first + unit, banned
      unit, banned = 0, 0
    elseif kind % 24 == 12 then
      plan.keys, unit = max(plan.keys, unit), 0
    end
    local pair = plan.pairs[place] or newPair()
    plan.pairs[place], plan.keys = pair, max(plan.keys, place)
    if flags % 2 == 1 then
      op = {does = floorDiv(flags, 4), isDry = flags % 4 >= 2, pair = pair, limits = {}, charged = {}, of = ''}
      table.insert(plan.ops, op)
      table.insert(op.does > hold and plan.settled or op.isDry and plan.dry or plan.together, op)
      if op.isDry or op.does > lend or op.does ~= plan.ops[1].does or place < #plan.pairs then
        isPlain = false
      end
    end
    if kind == 0 or rate == 0 then
      isPlain = false -- requests in flight are counted by what the pair holds, and rate 0 admits none
      l = {kind = kind, rate = 0, full = capacity, period = 1, isStateless = true, algorithm = algorithms[kind % 24]}
    else
      l = newLimit(kind, rate, capacity, unit, banned, starts)
    end
    l.op, l.pair = op, pair
    plan.shared = addState(pair, l) or plan.shared
    isPlain = isPlain and pair.form ~= nil
    table.insert(op.limits, l)
    if l.rate > 0 then
      table.insert(op.charged, l)
      op.of = op.of .. l.identity
    end
    if op.does <= hold then
      table.insert(plan.decided, l)
      plan.isRead = plan.isRead and op.does ~= lend and l.algorithm.isRead
    end
  end
  plan.isPlain = isPlain and not plan.shared
  plan.charges = sub(text, letter, letter) == 't' and not (plan.isPlain and plan.ops[1].does == peek)
  plan.isRead = plan.isRead and plan.charges
  return plan
end

-- askedBeside returns what a limit of a plan asks of the state of another one. Peeks ask alone, and dry runs separately, because they
-- must not make others fail. A limit in flight counts requests.
local function askedBeside(other, l)
  local a, b = other.op, l.op
  if other ~= l and (other.pair ~= l.pair or other.kind ~= l.kind or a.isDry ~= b.isDry or a.does == peek or b.does == peek) then
    return 0
  end
  return l.kind == 0 and 1 or a.cost
end

-- setNumbers sets the numbers of the ops of a plan from the words of a request, and returns the plan.
local function setNumbers(plan, numbers)
  local ops, decided = plan.ops, plan.decided
  plan.numbers = numbers
  for i = 1, #ops do
    local op = ops[i]
    op.cost, op.final, op.at, op.turn = unpackWords(fourWords, numbers, 4 * word * (i - 1) + 1)
  end
  for i = 1, #decided do
    local l = decided[i]
    local asked = plan.shared and 0 or askedBeside(l, l)
    for k = 1, plan.shared and #decided or 0 do
      asked = min(asked + askedBeside(decided[k], l), maxExact)
    end
    l.asked, l.room = asked, l.full - asked * l.period
  end
  return plan
end

local plans = newCache(newPlan, 1000)
