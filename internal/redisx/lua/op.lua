-- Decides and settles the ops of a request. Those that settle go first, one after the other. Those that are decided are decided
-- together: all or nothing, but dry runs only for themselves.
--
-- The reply has numbers for each limit of the ops that are decided. The first is the wait, which is 0 if the limit admits the request,
-- -1 if it never does, and -1 - n if the request waits n microseconds for its turn. Of a bucket, its level and the age of that follow; of
-- a window, what is used and how long it still is. Of any other limit, and of each if a pair has cells or was taken apart, it is how many
-- requests remain, negative if more is used than there is, and the waits until there is one more and until nothing is used; a code then
-- comes first.
-- A number for each op that settles follows: the instant from which its hold counts after a renewal, or the requests charged ahead,
-- else 0. Each limit then has a fifth number: what it is granted now, plus grantZero.
--
-- A code is a multiple of -maxExact, which no wait reaches.
local failed, farOff, rare, held, full = -maxExact, -2 * maxExact, -3 * maxExact, -4 * maxExact, -5 * maxExact
local out = {} -- the numbers that are replied

-- tidy forgets the cells and states that the pairs of an earlier request had, and what it changed.
local function tidy(plan)
  plan.isUntidy = false
  for _, pair in ipairs(plan.pairs) do
    forget(pair)
  end
  for _, op in ipairs(plan.ops) do
    for _, l in ipairs(op.limits) do
      l.siblings = nil
    end
  end
end

-- heldOf returns what is held of a limit.
local function heldOf(l)
  return l.kind == 0 and l.pair.heldCount or l.pair.heldCost
end

-- openBeside opens a limit, and returns its wait in view of what the pair holds and its ban, and whether only holds are in the way.
local function openBeside(l, now)
  local wait
  if l.isStateless then
    wait = l.room < 0 and -1 or 0
  else
    wait = openState(l, now)
  end
  if wait < 0 then
    return wait, false
  end
  local held = heldOf(l)
  local isHeld = wait == 0 and held > 0 and report(l, now) < l.asked + held
  return max(isHeld and hint or wait, l.pair.bannedUntil - now), isHeld
end

-- bookTurn returns the wait of an opened limit that does not admit a request now, if the request may wait for its turn: that is
-- negative if the turn comes soon enough, and else the time after which the same request would wait. No request waits for what others
-- hold, since nobody knows when they end: bookTurn also returns whether that is in the way.
local function bookTurn(l, wait, now, isHeld)
  if heldOf(l) > 0 then
    return wait, true
  elseif wait > l.op.maxWait then
    return wait - l.op.maxWait, isHeld
  end
  l.behind = l.siblings and untilSiblings(l, now, l.room) or 0
  return l.algorithm.canBook(l, now) and -1 - wait or wait, isHeld
end

-- decide sets the waits of limits, and reports whether all are admitted, and whether holds are in the way.
local function decide(limits, now)
  local admitted, isHeld = true, false
  for _, l in ipairs(limits) do
    local wait, byHolds = openBeside(l, now)
    if wait > 0 and l.op.maxWait > 0 then
      wait, byHolds = bookTurn(l, wait, now, byHolds)
    end
    if wait > 0 or wait == -1 then
      admitted, isHeld = false, isHeld or byHolds
    end
    l.wait = wait
  end
  return admitted, isHeld
end

-- fitsAll reports whether all limits of an op admit it.
local function fitsAll(op)
  for _, l in ipairs(op.limits) do
    if l.wait > 0 or l.wait == -1 then
      return false
    end
  end
  return true
end

-- limitsOfHold returns the limits that are charged for an op when its hold ends. They are always the same, unless one has a calendar.
local function limitsOfHold(op, now)
  if op.held then
    return op.held
  end
  local limits, isFixed = {}, true
  for i, l in ipairs(op.charged) do
    local start, ends = 0, 0
    if l.starts then
      start, ends = windowOf(l, now - now % holdWidth + holdLife)
      isFixed = false
    end
    limits[i] = limitsOfHolds[l.identity .. pack(formats[2], start, ends)]
  end
  op.held = isFixed and limits or nil
  return limits
end

-- chargeEach charges or holds what ops with these limits ask, if all limits of the op admit it.
local function chargeEach(plan, limits, now)
  for _, l in ipairs(limits) do
    local op = l.op
    if op.does == peek or not fitsAll(op) then
      -- not charged
    elseif op.does == hold then
      if op.limits[1] == l then
        addHold(op.pair, now, op.cost, limitsOfHold(op, now), op.of)
      end
    elseif l.rate > 0 then
      if plan.shared then -- another limit may have changed the state
        openState(l, now)
      end
      chargeState(l, now, op.cost, l.wait < 0 and l.book or l.charge)
    end
  end
end

-- chargeAll charges cost to all limits of an op, whether it fits or not.
local function chargeAll(op, cost, now)
  for _, l in ipairs(cost > 0 and op.charged or none) do
    if not op.isAlone then -- another charge may have changed the state
      openState(l, now)
    end
    chargeState(l, now, cost, l.charge)
  end
end

-- fits reports whether all limits of an op, but those in flight, admit a cost.
local function fits(op, cost, now)
  for _, l in ipairs(op.limits) do
    ask(l, cost)
    if l.kind > 0 and openBeside(l, now) ~= 0 then
      return false
    end
  end
  return true
end

-- settle has what each op that settles does. Each function returns a number for the reply.
local settle = {}

-- adjust charges more for an op, or gives back what was charged at an instant. What was charged before a reset is forgotten.
local function adjustFrom(op, at, now)
  local more, pair, turn = op.final - op.cost, op.pair, op.turn > 0 and at + op.turn - 1 or nil
  if more > 0 and (not op.isDry or fits(op, more, now)) then
    chargeAll(op, more, now)
  elseif more < 0 and at >= pair.resetAt and not (turn and pair.bannedUntil > max(turn, now)) then -- others may wait for its end
    for _, l in ipairs(op.charged) do
      openState(l, now)
      l.algorithm.refund(l, now, at, turn, -more)
    end
  end
  return 0
end

settle[adjust] = function(op, now)
  return adjustFrom(op, op.at, now)
end

-- A hold that has ended was charged at its end.
settle[release] = function(op, now)
  local ended, final = op.at - op.at % holdWidth + holdLife, op.final
  if not releaseHold(op.pair, op.at, op.cost, op.of) and op.at > 0 and ended <= now then
    return adjustFrom(op, ended, now)
  end
  if op.isDry and final > op.cost and not fits(op, final, now) then
    final = op.cost
  end
  chargeAll(op, final, now)
  return 0
end

settle[renew] = function(op, now)
  local released = releaseHold(op.pair, op.at, op.cost, op.of)
  if not released then
    return 0
  end
  addHold(op.pair, now, released, limitsOfHold(op, now), op.of)
  return now
end

settle[ban] = function(op, now)
  addCell(op.pair, newCell(banCell, min(now + op.final, maxExact), 0, 0))
  sumCells(op.pair)
  return 0
end

settle[grant] = function(op, now)
  local n = op.cost - op.final
  for _, l in ipairs(op.charged) do
    ask(l, 0)
    openState(l, now)
    local algorithm = l.algorithm
    if algorithm.grantEnds then
      addGrant(op.pair, l.kind, algorithm.grantEnds(l, now), n)
    elseif n > 0 then
      algorithm.giveBack(l, n)
    else
      local banned = l.ban
      l.ban = 0 -- what is taken away begins no ban
      chargeState(l, now, -n, l.charge)
      l.ban = banned
    end
  end
  return 0
end

-- A reset keeps holds. The pair remembers it for as long as it would have been kept, so that what was charged before is not given
-- back out of what was charged since.
settle[reset] = function(op, now)
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
  if ends > now then
    addCell(pair, newCell(resetCell, min(ends, maxExact), now + 1, 0))
  end
  sumCells(pair)
  return 0
end

-- lend charges requests ahead, at most half of what remains.
settle[lend] = function(op, now)
  local ahead = op.pair.bannedUntil > now and 0 or op.cost
  for _, l in ipairs(op.limits) do
    local free = not l.isStateless and openState(l, now) and report(l, now) or 0
    ahead = min(ahead, floorDiv(max(0, free - heldOf(l)), 2))
  end
  chargeAll(op, ahead, now)
  return ahead
end

-- hasRoom reports whether the logs of an op can hold what it grants.
local function hasRoom(op, now)
  for _, l in ipairs(op.does == grant and op.limits or none) do
    if l.algorithm == log and l.rate + grantedAt(l, now) + op.cost - op.final > maxMembers then
      return false
    end
  end
  return true
end

-- openSettled opens all limits that ops settle, which mends what the clock has left behind.
local function openSettled(plan, now)
  for _, op in ipairs(plan.settled) do
    for _, l in ipairs(op.charged) do
      openState(l, now)
    end
  end
end

-- settleAll settles all ops that settle behind the first n numbers of out, and reports whether the logs have room for all grants.
local function settleAll(plan, now, n)
  for _, op in ipairs(plan.settled) do
    if not hasRoom(op, now) then
      return false
    end
  end
  for i, op in ipairs(plan.settled) do
    out[n + i] = settle[op.does](op, now)
  end
  return true
end

-- reportEach writes the reply about limits, with a fifth number for each, behind the first n numbers of out.
local function reportEach(plan, now, n)
  for i, l in ipairs(plan.decided) do
    if not l.isStateless and (plan.shared or l.siblings) then -- a charge may have changed the state
      openState(l, now)
    end
    local pair, free, refill, reset = l.pair, report(l, now)
    local ban, held = max(0, pair.bannedUntil - now), heldOf(l)
    local least = max(ban, held > 0 and hint or 0)
    if free >= 0 then
      free = ban > 0 and 0 or max(0, free - held)
    end
    local granted = l.rate > 0 and min(grantedAt(l, now), l.mostGranted) or 0
    local at = n + 5 * (i - 1)
    out[at + 1], out[at + 2], out[at + 3], out[at + 4], out[at + 5] = l.wait, free, max(refill, least), max(reset, least), granted + grantZero
  end
  return n + 5 * #plan.decided
end

-- doEach does a request of any kind, and writes the reply behind the first n numbers of out.
local function doEach(plan, now, n)
  plan.isUntidy = plan.isPlain
  for _, pair in ipairs(plan.pairs) do
    takeApart(pair, pair.value, now)
  end
  openSettled(plan, now)
  local at = n + 1
  local isDone, admitted, isHeld = settleAll(plan, now, at)
  if plan.hasDry then -- in the order of the ops
    for _, l in ipairs(plan.decided) do
      if not l.isStateless then
        openState(l, now)
      end
    end
  end
  if isDone then
    n = at + #plan.settled
    admitted, isHeld = decide(plan.live, now)
    if admitted and plan.charges then
      chargeEach(plan, plan.live, now)
    end
    if plan.hasDry then
      decide(plan.dry, now)
      if admitted and plan.charges then
        chargeEach(plan, plan.dry, now)
      end
    end
    n = reportEach(plan, now, n)
  end
  out[at] = not isDone and full or isHeld and held or rare
  for _, pair in ipairs(plan.pairs) do
    saveChanged(pair, now) -- also if a log has no room: holds may have ended
  end
  return max(n, at)
end

-- doOps does a request whose keys follow keyList[first], and writes the reply behind the first n numbers of out. Most pairs have just
-- the states of the plan and no cells, and most requests only take: then the limits open, charge and put the states where they are.
local function doOps(plan, keyList, first, now, n)
  local pairs, isPlain, admitted = plan.pairs, plan.isPlain, true
  if plan.isUntidy then
    tidy(plan)
  end
  if plan.hasLogs then
    for _, l in ipairs(plan.logs) do
      l.key = keyList[first + l.keyPlace]
    end
  end
  for k = 1, #pairs do
    local pair, key = pairs[k], keyList[first + k]
    local value, head = tryCall('HGET', key, 's'), 0
    pair.key, pair.value = key, value
    if not value then
      value = pair.blank
    elseif #value == pair.bytes then
      head = unpackWords(oneWord, value)
      if head > maxKept then
        isPlain = false
      end
    else
      isPlain = false
    end
    pair.head = head
    if isPlain then
      for i = 1, #pair do
        local l = pair[i]
        local wait = l.open(l, value, l.place, now)
        if wait ~= 0 then
          if not wait then
            isPlain = false
            break
          elseif wait > 0 and l.op.maxWait > 0 then
            wait = bookTurn(l, wait, now)
          end
          if wait >= -1 then
            admitted = false
          end
        end
        l.wait = wait
      end
    end
  end
  if not isPlain then
    return doEach(plan, now, n)
  end
  if admitted and plan.charges then
    for k = 1, #pairs do
      local pair = pairs[k]
      local last, text = 0, nil
      for i = 1, #pair do
        local l = pair[i]
        local ends = (l.wait < 0 and l.book or l.charge)(l, now, l.op.cost)
        if ends > last then
          last = ends
        end
        text = text and text .. l.put(l) or l.put(l)
      end
      if last > 0 then -- otherwise, only logs were charged, and are kept for long enough
        save(pair, last, now, text)
      end
    end
  end
  local limits = plan.live
  for i = 1, #limits do
    local l = limits[i]
    n = l.tell(l, out, n, now)
  end
  return n
end
