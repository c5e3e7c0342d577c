-- Everything dated that a pair remembers besides the states of its limits. Mirrors internal/algorithm.
--
-- A cell is a table. It has a kind, and ends, the instant from which it no longer counts:
--
--   hold    n is the cost of its requests, count their number, group the limits that n is charged to at the end, and of their names
--   grant   n is a number of requests, negative if they were taken away, and of is the kind of the limits
--   ban     of the pair, n is for how long, or 0 if that is not known
--   reset   what was charged before the instant n is not given back
--
-- The cells of a pair are in the order of their ends. A pair has one cell for the holds of the same 6 s and limits, one for the
-- grants of a kind with the same end, at most one ban and at most one reset. They are stored as words:
--
--   1, number of limits, and of each kind, rate, capacity, unit, ban, start, end     a group: start and end are of a calendar's window
--   2, ends, n, count, number of its group, from 1, or 0 for none                    a hold
--   3 for a grant, 4 for a ban, 5 for a reset, ends, n, of, 0                        of a grant, n is more by grantZero
local groupWords, holdCell, grantCell, banCell, resetCell = 1, 2, 3, 4, 5
local holdWidth, holdLife = 6000000, 66000000
local hint = 1000000 -- the wait that is reported where only holds are in the way
local none = {} -- any list without elements
local grantZero, maxGrant, maxGrants = 4503599627370496, 1073741823, 60 -- 2^52, 2^30-1

-- newCell returns a cell.
local function newCell(kind, ends, n, of, count, group)
  return {kind = kind, ends = ends, n = n, of = of, count = count or of, group = group}
end

-- endOfHold returns when a hold of an instant ends.
local function endOfHold(at) return at - at % holdWidth + holdLife end

-- sumCells sets what the cells of a pair come to.
local function sumCells(pair)
  local cost, count, grants = 0, 0, 0
  pair.bannedUntil, pair.resetAt = 0, 0
  for _, cell in ipairs(pair.cells) do
    local kind = cell.kind
    if kind == holdCell then
      cost, count = min(cost + cell.n, maxExact), count + cell.count
    elseif kind == grantCell then
      grants = grants + 1
    elseif kind == banCell then
      pair.bannedUntil = cell.ends
    else
      pair.resetAt = cell.n
    end
  end
  pair.heldCost, pair.heldCount, pair.grants = cost, count, grants
end

-- addCell adds a cell to a pair, together with the cell that it belongs to. Holds with one end keep the order in which they began.
local function addCell(pair, cell)
  local cells, kind, place = pair.cells, cell.kind, nil
  for i = 1, #cells do
    local same = cells[i]
    if same.kind == kind and same.of == cell.of and (same.ends == cell.ends or kind >= banCell) then
      table.remove(cells, i)
      if kind == holdCell then
        place, cell.n, cell.count, cell.group = i, min(same.n + cell.n, maxExact), same.count + cell.count, same.group
      elseif kind == grantCell then
        cell.n = max(-maxGrant, min(same.n + cell.n, maxGrant))
      else
        cell.ends, cell.n = max(same.ends, cell.ends), max(same.n, cell.n)
      end
      break
    end
  end
  place = place or #cells + 1
  while place > 1 and cells[place - 1].ends > cell.ends do
    place = place - 1
  end
  if kind ~= grantCell or cell.n ~= 0 then
    table.insert(cells, place, cell)
  end
  pair.dirty = true
  sumCells(pair)
end

-- releaseHold ends a hold of cost made at an instant, and returns how much it held, or nil if it has ended. If the instant is later
-- than all holds of these limits, because the clock went back, releaseHold takes from the latest.
local function releaseHold(pair, at, cost, of)
  local cells, ends = pair.cells, nil
  for i = #cells, 1, -1 do
    local cell = cells[i]
    if cell.kind == holdCell and cell.of == of then
      ends = ends or min(endOfHold(at), cell.ends)
      if cell.ends == ends then
        local released = min(cost, cell.n)
        cell.n, cell.count, pair.dirty = cell.n - released, cell.count - 1, true
        if cell.count <= 0 then
          table.remove(cells, i)
        end
        sumCells(pair)
        return released
      end
    end
  end
end

-- addGrant grants n requests to the limits of a kind until an instant. If there are too many grants, the two of this kind that
-- end first become one, which at no instant grants more.
local function addGrant(pair, of, ends, n)
  addCell(pair, newCell(grantCell, ends, max(-maxGrant, min(n, maxGrant)), of))
  local first, second
  for i = pair.grants > maxGrants and #pair.cells or 0, 1, -1 do
    if pair.cells[i].kind == grantCell and pair.cells[i].of == of then
      second = first
      first = i
    end
  end
  if second then
    local b, a = table.remove(pair.cells, second), table.remove(pair.cells, first)
    if b.n >= 0 then
      addGrant(pair, of, a.ends, a.n + b.n)
    else
      addGrant(pair, of, b.ends, min(a.n, 0) + b.n)
    end
  end
end

-- grantedAt returns what is granted to a limit at an instant, and until when that stays.
local function grantedAt(l, at)
  local n, stays, cells = 0, math.huge, l.pair.cells
  for i = 1, #cells do
    local cell = cells[i]
    if cell.kind == grantCell and cell.of == l.kind and cell.ends > at then
      n, stays = n + cell.n, min(stays, cell.ends)
    end
  end
  return n, stays
end

-- untilSiblings returns how long after now the siblings of a limit take to have used no more than target: at least wait.
local function untilSiblings(l, now, target, wait)
  for _, one in ipairs(l.siblings or none) do
    wait = max(wait, one.untilUsed(now, target))
  end
  return wait
end

-- fallsTo returns how long after now a limit and its siblings take to have used no more than target plus what is granted then, at
-- least so long, or -1 for never.
local function fallsTo(l, now, target, least)
  local from = now + (least or 0)
  while true do
    local granted, stays = grantedAt(l, from)
    local n = target + min(granted, l.mostGranted)
    if n >= 0 then
      local wait = max(untilSiblings(l, now, n, l.untilUsed(now, n)), from - now)
      if now + wait < stays then
        return wait
      end
    end
    if stays == math.huge then
      return -1
    end
    from = stays
  end
end

-- report returns what a limit leaves, negative if more is used than there is, and the waits until there is one more and until
-- nothing is used: none if nothing is used and something is left. During a ban, one more is one at all.
local function report(l, now, ban)
  if l.isStateless then
    return l.full, 0, 0
  end
  local used, period = max(l.used(), l.others), l.period
  local room = l.full - used
  local free = max((room - room % period) / period + min(grantedAt(l, now), l.mostGranted), l.least)
  if used == 0 and free > 0 then
    return free, 0, 0
  end
  local refill, reset = fallsTo(l, now, l.full - ((ban and 0 or max(0, free)) + 1) * period, ban), untilSiblings(l, now, 0, l.untilUsed(now, 0))
  if ban or free <= 0 then -- perhaps not before a grant that takes away has ended
    return free, refill, max(reset, refill)
  end
  return free, refill < 0 and reset or min(refill, reset), reset
end
