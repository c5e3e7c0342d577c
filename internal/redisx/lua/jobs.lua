-- Runs requests, one after the other: decides those of a Take, each all or nothing by itself, and settles others.
-- Uses word (word), clock, filled, logError, repaired, reply (reply), leaseWords, newPlan, settleWords (limit),
-- decidePlain, isPlain (plain), decideOne (plainone).
--
-- KEYS: those of each request, one request after the other.
-- ARGV: the shift of the clock, then plans, each with the number of requests that have it, less than 0 if they are to be settled,
-- and a text with five words for each of their leased claims, see lease.lua, or of all their claims, if they are to be settled:
--
--   at      when it was charged, held or last renewed, in microseconds since 1970; 0 if it is not known
--   cost    what it was charged or held
--   final   what it costs after all
--   ban     microseconds for which nothing is to fit; else 0
--   flags   1 if cost was held + 2 to keep the hold
--
-- Returns the instant, how many states were repaired, and for each request of a Take
--
--   the level of each limit, or -4 less the level if the request is denied, if its plan is plain and does not hold,
--   or -1, or -3 if requests in flight are what denies it, and four numbers for each limit: retry, remaining, refill, reset,
--   and then, if it has leased claims, how many requests were charged ahead for each of those;
--   or -2 if it could not be decided, because of an error that the server's log has.
--
-- For one to be settled that asks for something it returns the same as for one that is not plain, else for each claim when it is
-- held from now on, or 0; or -2.
local now, first = clock(), 1
local decidesHeld, mayBePlain, settlesPlain, newLeaseOne, newPlainLease, newGeneral -- of newRare: see script.go
local decideLeasedOne, decidePlainLeased -- of newLeaseOne and newPlainLease
local decideRequest, decideLeased, settleRequest -- of newGeneral

-- defineRare defines what most runs do not need.
local function defineRare()
  if not newGeneral then
    decidesHeld, mayBePlain, settlesPlain, newLeaseOne, newPlainLease, newGeneral = newRare()
  end
end

-- try decides or settles a request of any limits, whose numbers begin at a byte of a text. If it fails, that does not spoil the
-- others.
local function try(plan, settles, numbers, start)
  defineRare()
  if not decideRequest then
    decideRequest, decideLeased, settleRequest = newGeneral()
  end
  local before = filled
  local run = settles and settleRequest or plan.leases > 0 and decideLeased or decideRequest
  local ok, err = pcall(run, plan, first, now, numbers, start)
  if not ok and #KEYS == plan.keys then
    error(err, 0)
  elseif not ok then
    logError(err)
    filled = before + 1
    reply[filled] = -2
  end
end

-- tryPlainLeased decides a leased request that is plain, unless its state is not, and reports whether it did.
local function tryPlainLeased(plan, ...)
  decideLeasedOne = decideLeasedOne or newLeaseOne()
  if #plan == 1 and decideLeasedOne(plan, ...) then
    return true
  end
  decidePlainLeased = decidePlainLeased or newPlainLease()
  return decidePlainLeased(plan, ...)
end

-- plainOf returns the function that decides or settles requests of a plan that are plain, or nil for another plan.
local function plainOf(plan, settles)
  if settles then
    defineRare()
    return mayBePlain(plan) and settlesPlain
  elseif not isPlain(plan) then
    return nil
  elseif plan.held or plan.leases > 0 then
    defineRare()
    return plan.held and decidesHeld or tryPlainLeased
  end
  return #plan == 1 and decideOne or decidePlain
end

for i = 2, #ARGV, 3 do
  local plan, count, start, numbers = newPlan(ARGV[i]), tonumber(ARGV[i + 1]), 1, ARGV[i + 2]
  local settles = count < 0
  local size = word * (settles and settleWords * plan.claims or leaseWords * plan.leases)
  local tryPlain = plainOf(plan, settles)
  for _ = 1, math.abs(count) do
    if not (tryPlain and tryPlain(plan, first, now, numbers, start)) then
      try(plan, settles, numbers, start)
    end
    first, start = first + plan.keys, start + size
  end
end
reply[2] = repaired
return reply
