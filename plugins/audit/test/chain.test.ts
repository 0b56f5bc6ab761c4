import { spawnSync } from 'node:child_process'
import { appendFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { newestEntries } from '../chain/entries.js'
import { Refusals } from '../index.js'
import { noSmallDisk, smallDisk } from '../../../test/tools/small-disk.js'
import { edit, everyLine, fields, filesIn, linesOf, openChain, tempFolder, verified } from './kit.js'

t.test('records follow each other over restarts', async (t) => {
  const folder = join(tempFolder(t), 'audit')
  const first = await openChain(folder)
  t.equal(first.chain.head, null)
  const made = await Promise.all(Array.from({ length: 200 }, (_, i) =>
    first.chain.append(fields({ detail: { i } }))))
  t.same(made.map(({ seq }) => seq), Array.from({ length: 200 }, (_, i) => i + 1), 'in the order they came')
  t.same(first.told, made)
  await first.chain.close()
  const second = await openChain(folder)
  t.same(second.chain.head, { seq: 200, hash: made.at(-1)!.hash })
  made.push(await second.chain.append(fields()))
  t.same(await everyLine(second.chain), linesOf(made))
  t.match(verified(linesOf(made)), { records: 201, first: 1, last: { seq: 201 }, fault: null })
  await second.chain.close()
})

t.test('what a crash left of a record is cut off', async (t) => {
  for (const rest of ['{"at":"20', '\0\0\0\0']) {
    const folder = tempFolder(t)
    const first = await openChain(folder)
    for (let i = 0; i < 3; i++) await first.chain.append(fields())
    await first.chain.close()
    appendFileSync(join(folder, filesIn(folder)[0]!), rest)
    const second = await openChain(folder)
    await second.chain.append(fields())
    t.match(verified(await everyLine(second.chain)), { records: 4, last: { seq: 4 }, fault: null })
    await second.chain.close()
  }
})

t.test('a file that somebody wrote into is gone on with, and the place is named', async (t) => {
  const folder = tempFolder(t)
  const first = await openChain(folder)
  for (let i = 0; i < 3; i++) await first.chain.append(fields())
  await first.chain.close()
  const path = join(folder, filesIn(folder)[0]!)
  edit(path, (text) => `${text}nonsense\n`)
  const second = await openChain(folder)
  await second.chain.append(fields())
  t.match(verified(await everyLine(second.chain)).fault, { seq: 4, kind: 'altered' })
  await second.chain.close()
  edit(path, (text) => text.replace('nonsense\n', ''))
  const third = await openChain(folder)
  t.equal(verified(await everyLine(third.chain)).fault, null)
  await third.chain.close()
})

t.test('full files are ended, the oldest is dropped, and the chain says so', async (t) => {
  const folder = tempFolder(t)
  const small = { fileBytes: 2000, files: 3 }
  let { chain } = await openChain(folder, small)
  for (let i = 0; i < 40; i++) {
    await chain.append(fields({ detail: { i } }))
    if (i % 7 === 0) {
      await chain.close()
      chain = (await openChain(folder, small)).chain
    }
  }
  const lines = await everyLine(chain)
  const { first, last, fault } = verified(lines)
  t.equal(fault, null)
  t.ok(first! > 1 && last!.seq > 40, `${first} to ${last!.seq}`)
  t.equal(filesIn(folder).length, 3)
  t.match(verified(lines.slice(1)).fault, { seq: first!, kind: 'removed' }, 'more than that is noticed')
  const reading = chain.lines()
  t.equal((await reading.next()).value, lines[0])
  for (let i = 0; i < 40; i++) await chain.append(fields())
  let count = 1
  for await (const _ of reading) count++
  t.equal(count, lines.length, 'a reader sees what there was when it began')
  await chain.close()
})

t.test('a disk that takes nothing', async (t) => {
  const folder = tempFolder(t)
  // A folder at the path of the first file makes opening this file fail.
  const { chain, faults } = await openChain(folder)
  const blocked = join(folder, '000000000001.jsonl')
  spawnSync('mkdir', [blocked])
  await t.rejects(chain.append(fields()), { name: 'ChainFault', message: /^EEXIST/ })
  t.match(faults, [/^EEXIST: file already exists$/], 'without a path')
  await chain.settle(fields({ what: 'outcome', detail: { of: 7 } }))
  rmSync(blocked, { recursive: true })
  const { seq } = await chain.append(fields())
  t.equal(seq, 2, 'what was owed comes first')
  t.match(faults, [String, null])
  t.match(verified(await everyLine(chain)), { records: 2, fault: null })
  await chain.close()
})

const CHANGE = fields({ detail: { text: 'x'.repeat(1000) } })

t.test('a full disk', { skip: noSmallDisk }, async (t) => {
  const disk = smallDisk(t, '256k')
  const folder = join(disk.path, 'audit')
  const { chain, faults, told } = await openChain(folder, { reserveBytes: 48 * 1024 })
  disk.fill()
  let refused = 0
  for (let i = 0; refused < 3; i++) await chain.append(CHANGE).catch(() => { refused++ })
  t.ok(told.length >= 24, `the reserve takes ${told.length} records`)
  t.match(faults, [/^ENOSPC/])
  const acknowledged = told.length
  const whole = { records: acknowledged, last: { seq: acknowledged }, fault: null }
  t.match(verified(await everyLine(chain)), whole,
    'all that was acknowledged, and nothing of what was not')
  await chain.settle(fields({ what: 'outcome', detail: { of: acknowledged, text: 'x'.repeat(5000) } }))
  for (let i = 0; i < 2; i++) chain.miss()
  disk.free()
  t.equal((await chain.append(fields())).seq, acknowledged + 3)
  t.match(told[acknowledged + 1], { who: 'node', what: 'gap', detail: { unrecorded: 2, from: /^20/ } })
  t.same(faults.at(-1), null)
  t.equal((await chain.append(fields())).seq, acknowledged + 4, 'the gap is told once')
  t.match(verified(await everyLine(chain)), { records: acknowledged + 4, fault: null })
  disk.fill()
  t.equal((await chain.append(CHANGE)).seq, acknowledged + 5, 'the reserve is there again')
  await chain.close()
  const next = await openChain(folder, { reserveBytes: 48 * 1024 })
  t.equal((await next.chain.append(CHANGE)).seq, acknowledged + 6, 'also for the next start')
  await next.chain.close()
})

t.test('a gap is told at the end at the latest', async (t) => {
  const folder = tempFolder(t)
  const { chain } = await openChain(folder)
  chain.miss()
  await chain.close()
  const next = await openChain(folder)
  t.match(JSON.parse((await everyLine(next.chain))[0]!), { what: 'gap', detail: { unrecorded: 1 } })
  await next.chain.close()
})

t.test('more than may wait is refused', async (t) => {
  const { chain } = await openChain(tempFolder(t), { waiting: 10 })
  const all = await Promise.allSettled(Array.from({ length: 100 }, () => chain.append(fields())))
  const kept = all.filter(({ status }) => status === 'fulfilled').length
  t.ok(kept >= 10 && kept < 100, `${kept} of 100`)
  t.match(verified(await everyLine(chain)), { records: kept, fault: null })
  await chain.close()
})

t.test('the newest changes, each with its end', async (t) => {
  const { chain } = await openChain(tempFolder(t), { fileBytes: 1500 })
  const put = async (who: string, end?: object): Promise<void> => {
    const { seq } = await chain.append(fields({ who, detail: { body: { a: 1 } } }))
    if (end !== undefined) await chain.append(fields({ who, what: 'outcome', detail: { of: seq, ...end } }))
  }
  await put('one', { status: 200, noted: { id: 'x' } })
  await put('two', { status: 409, reason: 'config_changed' })
  await put('one')
  await chain.append(fields({ who: 'three', detail: { refused: { status: 403, reason: 'missing_grant' } } }))
  const newest = async (wanted: object) =>
    await newestEntries(chain.newestFirst(), { since: null, who: null, limit: 10, ...wanted })
  t.match(await newest({}), [
    { who: 'one', status: 200, reason: null, detail: { body: { a: 1 }, noted: { id: 'x' } } },
    { who: 'two', status: 409, reason: 'config_changed' },
    { who: 'one', status: null, reason: null },
    { who: 'three', status: 403, reason: 'missing_grant', detail: {} }
  ])
  t.same((await newest({ who: 'one' })).map(({ seq }) => seq), [1, 5])
  t.same((await newest({ limit: 2 })).map(({ who }) => who), ['one', 'three'])
  t.same(await newest({ since: '2999-01-01T00:00:00.000Z' }), [])
  t.equal((await newest({ since: '2020-01-01T00:00:00.000Z' })).length, 4)
  await chain.close()
})

t.test('refused requests do not fill the chain', async (t) => {
  const refusals = new Refusals()
  const hour = 3_600_000
  for (let i = 0; i < 10; i++) t.equal(refusals.admit('a', i), 0)
  for (let i = 0; i < 5; i++) t.equal(refusals.admit('a', 100), null)
  t.equal(refusals.admit('b', 100), 0, 'each caller for itself')
  t.equal(refusals.admit('a', hour), 5, 'and then says how many were not recorded')
  t.equal(refusals.admit('a', hour), null)
})
