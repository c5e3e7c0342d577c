-- Decides and settles the ops of a request. Those that settle go first, one after the other. Those that are decided are decided
-- together: all or nothing, but dry runs only for themselves.
--
-- The reply to a request that is charged at once is the pairs as they are stored, if they have no cells and the process reads the states of
-- their algorithms. Any other reply begins with a code, which is a multiple of -maxExact. Behind rare or held, it has a number for each op
-- that settles: the instant from which its hold counts after a renewal, else 0. Numbers for each limit of the ops that are decided follow.
-- The first is the wait, which is 0 if the limit admits the request, -1 if it never does, and -1 - n if the request waits n microseconds
-- for its turn or a loan charged n ahead. The others are how many requests remain, negative if more is used than there is, the waits until
-- there is one more and until nothing is used, and what is granted now, plus grantZero.
local failed, farOff, rare, held, full = -maxExact, -2 * maxExact, -3 * maxExact, -4 * maxExact, -5 * maxExact
local out, numbers = {}, {} -- the texts that are replied, and the numbers of one of them

-- heldOf returns what is held of a limit.
local function heldOf(l) return l.kind == 0 and l.pair.heldCount or l.pair.heldCost end

-- waitOf returns the wait of a limit in view of what the pair holds and its ban, and whether only holds are in the way.
local function waitOf(plan, l, now)
  if plan.shared and not l.isStateless then
    openState(l, now)
  end
  local wait = l.isStateless and (l.room < 0 and -1 or 0) or fallsTo(l, now, l.room)
  if wait < 0 then
    return wait, false
  end
  local held = heldOf(l)
  local isHeld = wait == 0 and held > 0 and report(l, now) < l.asked + held
  if isHeld then
    wait = hint
  end
  local ban = l.pair.bannedUntil - now
  return ban > wait and (not l.isStateless and fallsTo(l, now, l.room, ban) or ban) or wait, isHeld
end

-- bookTurn returns the wait of an opened limit that does not admit a request now, if the request may wait for its turn: that is
-- negative if the turn comes soon enough, and else the time after which the same request would wait. No request waits for what others
-- hold, since nobody knows when they end: bookTurn also returns whether that is in the way.
local function bookTurn(l, wait, now, isHeld)
  if heldOf(l) > 0 then
    return wait, true
  elseif wait > l.op.turn then
    return wait - l.op.turn, isHeld
  end
  l.behind = untilSiblings(l, now, l.room, 0)
  bucket.join(l, now)
  local _, level = bucket.booked(l, now, l.asked)
  return level <= maxExact and -1 - wait or wait, isHeld
end

-- groupOf returns the limits that are charged for an op when its hold ends. They are always the same, unless one has a calendar.
local function groupOf(op, now)
  if op.group or #op.charged == 0 then
    return op.group
  end
  local text, isFixed = pack(twoWords, groupWords, #op.charged), true
  for _, l in ipairs(op.charged) do
    local start, ends = 0, 0
    if l.starts then
      start, ends = l.windowOf(endOfHold(now))
      isFixed = false
    end
    text = text .. l.identity .. pack(twoWords, start, ends)
  end
  op.group = isFixed and groups[text] or nil
  return op.group or groups[text]
end

-- addHold holds a cost for an op from now on.
local function addHold(op, now, cost)
  addCell(op.pair, newCell(holdCell, endOfHold(now), cost, op.of, 1, groupOf(op, now)))
end

-- chargeAll charges cost to all limits of an op, whether it fits or not. If limits share a state, another charge may have changed it.
local function chargeAll(plan, op, cost, now)
  for _, l in ipairs(cost > 0 and op.charged or none) do
    if plan.shared then
      openState(l, now)
    end
    chargeState(l, now, cost, l.wait < 0 and l.book or l.charge)
  end
end

-- aheadOf returns how many requests a loan that is admitted, the only op decided, charges ahead: at most half of what remains.
local function aheadOf(op, now)
  local ahead = op.final
  for _, l in ipairs(op.limits) do
    ahead = min(ahead, floorDiv(max(0, report(l, now) - heldOf(l)), 2))
  end
  return ahead
end

-- decide decides the dry runs of a plan, or its other ops: it sets the waits of their limits. Then it charges or holds what the dry runs
-- that are admitted ask if mayCharge is set, and what the others ask if all are admitted. It returns whether all are, and whether holds
-- are in the way.
local function decide(plan, ops, now, mayCharge)
  local allAdmitted, isHeld = true, false
  for i = 1, #ops do
    local op, admitted = ops[i], true
    for k = 1, #op.limits do
      local l = op.limits[k]
      local wait, byHolds = waitOf(plan, l, now)
      if wait > 0 and op.turn > 0 then
        wait, byHolds = bookTurn(l, wait, now, byHolds)
      end
      if wait > 0 or wait == -1 then
        admitted, allAdmitted, isHeld = false, false, isHeld or byHolds
      end
      l.wait = wait
    end
    op.isAdmitted = admitted
  end
  for i = 1, plan.charges and mayCharge and (ops == plan.dry or allAdmitted) and #ops or 0 do
    local op = ops[i]
    if op.isAdmitted and op.does == hold then
      addHold(op, now, op.cost)
    elseif op.isAdmitted and op.does ~= peek then
      local ahead = op.does == lend and aheadOf(op, now) or 0
      chargeAll(plan, op, op.cost + ahead, now)
      for k = 1, ahead > 0 and #op.limits or 0 do
        op.limits[k].wait = -1 - ahead
      end
    end
  end
  return allAdmitted, isHeld
end

-- fits reports whether all limits of an op, but those in flight, admit a cost.
local function fits(plan, op, cost, now)
  for _, l in ipairs(op.limits) do
    l.asked, l.room = cost, l.full - cost * l.period
    if l.kind > 0 and waitOf(plan, l, now) ~= 0 then
      return false
    end
  end
  return true
end

-- settle has what each op that settles does. A function may return a number for the reply.
local settle = {}

-- adjust charges more for an op, or gives back what was charged at an instant. What was charged before a reset is forgotten.
settle[adjust] = function(plan, op, now, at)
  at = at or op.at
  local more, pair, turn = op.final - op.cost, op.pair, op.turn > 0 and at + op.turn - 1
  if more > 0 and (not op.isDry or fits(plan, op, more, now)) then
    chargeAll(plan, op, more, now)
  elseif more < 0 and at >= pair.resetAt and not (turn and pair.bannedUntil > max(turn, now)) then -- others may wait for its end
    for _, l in ipairs(op.charged) do
      openState(l, now)
      l.algorithm.refund(l, now, at, turn, -more)
    end
  end
end

-- A hold that has ended was charged at its end.
settle[release] = function(plan, op, now)
  local ended, final = endOfHold(op.at), op.final
  if not releaseHold(op.pair, op.at, op.cost, op.of) and op.at > 0 and ended <= now then
    return settle[adjust](plan, op, now, ended)
  end
  if op.isDry and final > op.cost and not fits(plan, op, final, now) then
    final = op.cost
  end
  chargeAll(plan, op, final, now)
end

settle[renew] = function(_, op, now)
  local released = releaseHold(op.pair, op.at, op.cost, op.of)
  if released then
    addHold(op, now, released)
    return now
  end
end

settle[ban] = function(_, op, now)
  addCell(op.pair, newCell(banCell, min(now + op.final, maxExact), op.final, 0))
end

settle[grant] = function(_, op, now)
  local n = op.cost - op.final
  for _, l in ipairs(op.charged) do
    openState(l, now)
    if l.algorithm ~= bucket then
      addGrant(op.pair, l.kind, l.grantEnds and l.grantEnds() or now + l.micros, n)
    elseif n > 0 then
      bucket.giveBack(l, now, n)
    else
      chargeState(l, now, -n, l.charge, math.huge) -- what is taken away begins no ban
    end
  end
end

-- A reset keeps holds. The pair remembers it for as long as it would have been kept, so that what was charged before is not given
-- back out of what was charged since.
settle[reset] = function(_, op, now)
  local pair, ends, cells = op.pair, now, {}
  for _, s in ipairs(pair.states) do
    ends = max(ends, s.algorithm.ends(s.text))
    if s.algorithm == log then
      call('DEL', pair.key .. ':' .. format('%d', floorDiv(s.kind, 24)))
    end
  end
  for _, cell in ipairs(pair.cells) do
    if cell.kind == holdCell then
      table.insert(cells, cell)
    elseif cell.kind == resetCell then
      ends = max(ends, cell.ends)
    end
  end
  pair.dirty, pair.states, pair.cells = true, {}, cells
  sumCells(pair)
  if ends > now then
    addCell(pair, newCell(resetCell, min(ends, maxExact), now + 1, 0))
  end
end

-- settleAll settles all ops that settle, and reports whether the logs have room for all grants.
local function settleAll(plan, now)
  local settled = plan.settled
  for i = 1, #settled do
    local op = settled[i]
    for k = 1, op.does == grant and #op.limits or 0 do
      local l = op.limits[k]
      if l.algorithm == log and l.rate + grantedAt(l, now) + op.cost - op.final > maxMembers then
        return false
      end
    end
  end
  for i = 1, #settled do
    numbers[i + 1] = settle[settled[i].does](plan, settled[i], now) or 0
  end
  return true
end

-- packed returns a code and the numbers behind it, n in all, as words.
local function packed(code, n)
  local first = n <= maxWords and n or maxWords
  numbers[1] = code
  local text = pack(formats[first], unpack(numbers, 1, first))
  for i = maxWords + 1, n, maxWords do
    local last = min(n, i + maxWords - 1)
    text = text .. pack(formats[last - i + 1], unpack(numbers, i, last))
  end
  return text
end

-- reportEach returns a reply that begins with a code, and tells what each limit leaves behind the numbers of the ops that settle.
local function reportEach(plan, now, code)
  local limits, n = plan.decided, #plan.settled + 1
  for i = 1, #limits do
    local l = limits[i]
    if not l.isStateless and (plan.shared or l.siblings) then -- a charge may have changed the state
      openState(l, now)
    end
    local pair, granted = l.pair, 0
    local ban = pair.bannedUntil > now and pair.bannedUntil - now
    local free, refill, reset = report(l, now, ban)
    if pair.cells[1] and l.full > 0 then
      local held = heldOf(l)
      local least = max(held > 0 and hint or 0, ban or 0)
      free = free < 0 and free or ban and 0 or max(0, free - held)
      granted = l.rate > 0 and min(grantedAt(l, now), l.mostGranted) or 0
      refill, reset = max(refill, least), max(reset, least)
    end
    numbers[n + 1], numbers[n + 2], numbers[n + 3], numbers[n + 4], numbers[n + 5] = l.wait, free, refill, reset, granted + grantZero
    n = n + 5
  end
  return packed(code, n)
end

-- doApart does a request of any kind, whose keys follow keyList[first], and writes the reply behind the first n texts of out. It takes
-- the pairs apart. A plain plan has another one for that, so that its own limits never have siblings, and its pairs no cells.
local function doApart(plan, keyList, first, now, n)
  if plan.isPlain then
    plan = setNumbers(plans['-' .. plan.text], plan.numbers)
  end
  local pairs = plan.pairs
  for k = 1, #pairs do
    takeApart(pairs[k], keyList[first + k], now)
  end
  if not settleAll(plan, now) then
    out[n + 1] = packed(full, 1)
  else
    local admitted, isHeld = decide(plan, plan.together, now, true)
    decide(plan, plan.dry, now, admitted)
    out[n + 1] = reportEach(plan, now, isHeld and held or rare)
  end
  for k = 1, #pairs do
    saveChanged(pairs[k], now) -- also if a log has no room: holds may have ended
  end
  return n + 1
end

-- doPlain does the same for a plain plan if each pair has just the states of the plan and no cells: then the limits read and write these
-- where they are. It returns nil for other pairs, and if a state has to change because the clock went back.
local function doPlain(plan, keyList, first, now, n)
  local pairs, op, charges, isRead, out = plan.pairs, plan.ops[1], plan.charges, plan.isRead, out
  for k = 1, #pairs do
    local pair, key = pairs[k], keyList[first + k]
    local value = tryCall('HGET', key, 's') or pair.blank
    local head = #value == #pair.blank and unpackWords(oneWord, value) or math.huge
    if head > maxKept then
      return nil
    end
    pair.key, pair.head = key, head
    for i = 1, pair.count do
      local l = pair[i]
      local used, wait = l.open(value, l.place, now), 0
      if not used then
        return nil
      elseif used > l.room then
        wait, isRead = fallsTo(l, now, l.room), false
        wait = wait > 0 and l.op.turn > 0 and bookTurn(l, wait, now) or wait
        charges = charges and wait < -1
      end
      l.wait = wait
    end
  end
  local ahead = charges and op.does == lend and aheadOf(op, now) or 0
  for k = 1, charges and op.cost + ahead > 0 and #pairs or 0 do
    local pair, last = pairs[k], 0
    for i = 1, pair.count do
      local l = pair[i]
      local ends = (l.wait < 0 and l.book or l.charge)(now, l.asked + ahead)
      last = ends > last and ends or last
      if ahead > 0 then
        l.wait = -1 - ahead
      end
    end
    if last > 0 then -- otherwise, at most logs were charged, and are kept for long enough
      local head = pair.head
      local later = last > head and headOf(last, now)
      local text = pack(pair.form, later or head, pair.words())
      call('HSET', pair.key, 's', text)
      if later then
        keep(pair, text, later, now)
      end
      out[n + k] = text
    end
  end
  if isRead then
    return n + #pairs
  end
  out[n + 1] = reportEach(plan, now, rare)
  return n + 1
end
