import { randomUUID } from 'node:crypto'
import {
  chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, symlinkSync,
  writeFileSync
} from 'node:fs'
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { checkRecord } from '../files/record.js'
import { ModelRoot } from '../files/root.js'
import { recordOf, scratch, write, type Files } from './files-kit.js'
import type { CopyRecord } from '../types.js'

const ID = 'acme/x'
const OLD: Files = { 'config.json': '{}', 'onnx/model.onnx': 'old weights', 'gone.txt': 'x' }
const NEW: Files = { 'config.json': '{"a":1}', 'onnx/model.onnx': 'new weights!', 'a/b/c/deep.bin': 'x',
  'empty.txt': '' }

const NEW_COUNT = Object.keys(NEW).length

const open = async (folder: string): Promise<ModelRoot> => {
  const root = new ModelRoot({ root: folder, clock: manualClock() })
  await root.prepare()
  return root
}

const published = (root: ModelRoot): string => join(root.root, 'acme--x')

/** Paths and contents of the files under a folder; the record is left out. */
function contents (folder: string): Files {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const files = names.filter((name) => statSync(join(folder, name)).isFile() && name !== '.svc-record.json')
  return Object.fromEntries(files.sort().map((name) => [name, readFileSync(join(folder, name), 'utf8')]))
}
const sorted = (files: Files): Files =>
  Object.fromEntries(Object.entries(files).sort(([a], [b]) => a < b ? -1 : 1))

/** Creates a complete transfer, including svc's own files. */
function arrive (root: ModelRoot, files: Files): CopyRecord {
  write(root.incoming(ID), { ...files, '.svc-job.json': '{}', '.svc-journal': 'c 0\n' })
  return recordOf(ID, files)
}

t.test('a card that is older than tensor splits', (t) => {
  const cutOf = (engine: string, family: string, supportsTensor: boolean): boolean => {
    const record = recordOf(ID, NEW)
    return checkRecord({ ...record, card: { ...record.card, engine, family, supportsTensor } }, ID)
      .card.supportsTensor
  }
  t.equal(cutOf('llama-server', 'llama', false), true)
  t.equal(cutOf('llama-server', 'mamba', true), false, 'one that llama.cpp refuses to cut')
  t.equal(cutOf('onnx-lm', 'llama', false), false, 'another engine')
  const record = recordOf(ID, NEW)
  const untold = { ...record.card, engine: 'llama-server', tasks: ['completions'] }
  t.same(checkRecord({ ...record, card: untold }, ID).card.tasks, ['chat', 'completions'], 'in ChatML')
  t.end()
})

t.test('publishing', async (t) => {
  const root = await open(scratch(t))
  const old = arrive(root, OLD)
  t.match(await root.publish(ID, old),
    { modelId: ID, directory: published(root), sizeBytes: 14, freeableBytes: 14, record: old })
  t.same(readdirSync(published(root)).sort(), ['.svc-record.json', 'config.json', 'gone.txt', 'onnx'])
  t.same(contents(published(root)), sorted(OLD))
  t.notOk(existsSync(root.incoming(ID)))
  const fresh = arrive(root, { ...NEW, 'left/over.part': 'x', '.last_used': 'x' })
  const record = recordOf(ID, NEW)
  t.not(fresh.manifest.files.length, record.manifest.files.length)
  t.match(await root.publish(ID, record), { record })
  t.same(contents(published(root)), sorted(NEW),
    'the old copy is replaced, what the manifest does not name is gone')
  t.same(readdirSync(join(root.root, '.trash')), [])
  t.match(await root.publish(ID, record), { record }, 'once more: it is there')
  await t.rejects(root.publish(ID, old), { name: 'PathError', message: /no transfer of acme\/x to publish/ })
})

t.test('what is not complete is not published', async (t) => {
  const cases: [string, (folder: string) => void, RegExp][] = [
    ['a missing file', (folder) => { renameSync(join(folder, 'empty.txt'), join(folder, 'other')) },
      /"empty.txt".*is missing/],
    ['a short file', (folder) => { writeFileSync(join(folder, 'config.json'), '{') },
      /should have 7 bytes, but has 1/],
    ['a long file', (folder) => { writeFileSync(join(folder, 'empty.txt'), 'x') },
      /should have 0 bytes, but has 1/],
    ['a link to a file', (folder) => { symlinkSync('/etc/passwd', join(folder, 'link')) },
      /"link".* is a link/],
    ['a link in the place of a file', (folder) => {
      renameSync(join(folder, 'config.json'), join(folder, 'real'))
      symlinkSync('real', join(folder, 'config.json'))
    }, /"config.json".* is a link/],
    ['a link in the place of a folder', (folder) => {
      renameSync(join(folder, 'onnx'), join(folder, 'real'))
      symlinkSync('real', join(folder, 'onnx'))
    }, /"onnx".* is a link/],
    ['a name no model may have', (folder) => { write(folder, { 'a b': '' }) }, /not a valid file path/]
  ]
  for (const [name, damage, message] of cases) {
    const root = await open(scratch(t))
    const old = await root.publish(ID, arrive(root, OLD))
    const record = arrive(root, NEW)
    damage(root.incoming(ID))
    await t.rejects(root.publish(ID, record), { name: 'PathError', message }, name)
    t.same(await root.read(ID), old, 'the old copy stays')
    t.ok(existsSync(join(root.incoming(ID), '.svc-journal')), 'the transfer may go on')
  }
  const root = await open(scratch(t))
  const record = arrive(root, NEW)
  const wrong = { ...record, manifest: { ...record.manifest, totalBytes: 1 } }
  await t.rejects(root.publish(ID, wrong), { name: 'ManifestError' })
  await t.rejects(root.publish('acme/y', record),
    { name: 'PathError', message: /for "acme\/x", not for "acme\/y"/ })
  t.same(await root.list(), [])
})

const TRASHED = `.trash/copy-${randomUUID()}`

/** Crash states during publish, and the version that must exist after the next start. */
const crashes: [string, (root: ModelRoot, old: string, fresh: string) => void, 'old' | 'new'][] = [
  ['before the record', () => {}, 'old'],
  ['while the record is written',
    (_root, _old, fresh) => { write(fresh, { '.svc-record.json.tmp': '{"format":1,' }) }, 'old'],
  ['with the record, before the journal is gone', (_root, _old, fresh) => { seal(fresh, ['.svc-job.json']) },
    'old'],
  ['sealed', (_root, _old, fresh) => { seal(fresh, []) }, 'new'],
  ['the old copy in the trash', (root, old, fresh) => {
    seal(fresh, [])
    renameSync(old, join(root.root, TRASHED))
  }, 'new'],
  ['renamed, the trash still full', (root, old, fresh) => {
    seal(fresh, [])
    renameSync(old, join(root.root, TRASHED))
    renameSync(fresh, old)
  }, 'new'],
  ['renamed, the trash half empty', (root, old, fresh) => {
    seal(fresh, [])
    write(join(root.root, `.trash/transfer-${randomUUID()}`), { 'gone.txt': 'x' })
    renameSync(old, join(root.root, TRASHED))
    renameSync(fresh, old)
  }, 'new']
]

/** Does the first half of publish; `keep` lists svc's own files that a crash left behind. */
function seal (fresh: string, keep: string[]): void {
  const mine = ['.svc-job.json', '.svc-journal'].filter((name) => !keep.includes(name))
  writeFileSync(join(fresh, '.svc-record.json'), JSON.stringify({ format: 1, ...recordOf(ID, NEW) }))
  for (const name of mine) rmSync(join(fresh, name))
}

for (const [name, crash, expected] of crashes) {
  t.test(`a crash: ${name}`, async (t) => {
    const folder = scratch(t)
    const before = await open(folder)
    await before.publish(ID, arrive(before, OLD))
    const record = arrive(before, NEW)
    crash(before, published(before), before.incoming(ID))
    const root = await open(folder)
    const copy = await root.read(ID)
    t.same(copy?.record, recordOf(ID, expected === 'old' ? OLD : NEW), expected)
    t.same(contents(published(root)), sorted(expected === 'old' ? OLD : NEW), 'whole')
    t.match(await root.publish(ID, record), { record }, 'the publication can be asked for again')
    t.same(contents(published(root)), sorted(NEW))
    t.same(readdirSync(published(root)).filter((n) => n.startsWith('.')), ['.svc-record.json'])
    await root.sweep({ olderThanMs: 0, live: new Set() })
    t.same(readdirSync(join(folder, '.trash')), [])
    t.same(readdirSync(join(folder, '.incoming')), [])
  })
}

t.test('a first publication that a crash cut off', async (t) => {
  const folder = scratch(t)
  const before = await open(folder)
  arrive(before, NEW)
  seal(before.incoming(ID), [])
  t.same((await (await open(folder)).read(ID))?.record, recordOf(ID, NEW))
})

t.test('what only looks sealed is left to the transfer', async (t) => {
  for (const damage of ['{}', JSON.stringify({ format: 1, ...recordOf('acme/y', NEW) })]) {
    const folder = scratch(t)
    const before = await open(folder)
    arrive(before, NEW)
    seal(before.incoming(ID), [])
    writeFileSync(join(before.incoming(ID), '.svc-record.json'), damage)
    t.equal(await (await open(folder)).read(ID), undefined)
  }
  const folder = scratch(t)
  const before = await open(folder)
  arrive(before, NEW)
  seal(before.incoming(ID), [])
  writeFileSync(join(before.incoming(ID), 'config.json'), '{')
  const root = await open(folder)
  t.equal(await root.read(ID), undefined, 'a file that shrank')
  t.equal((await root.pending()).length, 1)
})

/** Calls that change the disk or open a file to sync it; `onBadDisk` can make each of them fail. */
const CHANGES = ['open', 'rename', 'unlink', 'rmdir', 'mkdir'] as const
type Change = (...args: unknown[]) => Promise<unknown>

/** Runs `work` on a disk where a call fails if `fails` returns true for its number, counted from 1. */
async function onBadDisk<T> (
  fails: (change: number, name: string, args: unknown[]) => boolean, work: () => Promise<T>
): Promise<T> {
  let changes = 0
  const real = { ...fs }
  for (const name of CHANGES) {
    const change: Change = async (...args) => {
      if (fails(++changes, name, args)) throw Object.assign(new Error(`EIO: ${name}`), { code: 'EIO' })
      return await (real[name] as Change)(...args)
    }
    Object.assign(fs, { [name]: change })
  }
  syncBuiltinESMExports()
  try {
    return await work()
  } finally {
    Object.assign(fs, real)
    syncBuiltinESMExports()
  }
}

t.test('a disk that is gone from any step on leaves a whole copy', async (t) => {
  const outcomes: string[] = []
  for (let last = 0, published = false; !published; last++) {
    const folder = scratch(t)
    const before = await open(folder)
    await before.publish(ID, arrive(before, OLD))
    const record = arrive(before, NEW)
    const attempt = onBadDisk((change) => change > last, async () => await before.publish(ID, record))
    published = await attempt.then(() => true, () => false)
    const root = await open(folder)
    const copy = await root.read(ID)
    const outcome = copy?.record?.manifest.files.length === NEW_COUNT ? 'new' : 'old'
    outcomes.push(outcome)
    t.same(copy?.record, recordOf(ID, outcome === 'old' ? OLD : NEW), `${last} changes: ${outcome}`)
    t.same((await root.publish(ID, record)).record, record)
  }
  t.match(outcomes.join(' '), /^(old )+(new ?)+$/)
  t.ok(outcomes.length > 15, `${outcomes.length} steps`)
})

t.test('a rename that fails brings the old copy back', async (t) => {
  const root = await open(scratch(t))
  const old = await root.publish(ID, arrive(root, OLD))
  const record = arrive(root, NEW)
  const arrival = (_change: number, name: string, args: unknown[]): boolean =>
    name === 'rename' && args[0] === root.incoming(ID)
  await t.rejects(onBadDisk(arrival, async () => await root.publish(ID, record)), { code: 'EIO' })
  t.same(await root.read(ID), old)
  t.same(readdirSync(join(root.root, '.trash')), [])
})

t.test('an old copy that cannot be removed is left to the sweep', async (t) => {
  const folder = scratch(t)
  const root = await open(folder)
  await root.publish(ID, arrive(root, OLD))
  const record = arrive(root, NEW)
  const all = { olderThanMs: 0, live: new Set<string>() }
  await onBadDisk((_change, name) => name === 'rmdir', async () => {
    t.match(await root.publish(ID, record), { record })
    t.equal(readdirSync(join(folder, '.trash')).length, 1)
    await t.rejects(root.sweep(all), { message: /^1 folders in .* could not be removed/ })
    await t.rejects(root.remove(ID), { code: 'EIO' }, 'said, not hidden')
  })
  t.same(await root.list(), [], 'the name is gone all the same')
  await root.sweep(all)
  t.same(readdirSync(join(folder, '.trash')), [])
})

t.test('whoever reads meanwhile sees one whole copy or the other', async (t) => {
  const root = await open(scratch(t))
  await root.publish(ID, arrive(root, OLD))
  let over = false
  const seen = new Set<string>()
  const reader = (async () => {
    while (!over) {
      const copy = await root.read(ID)
      if (copy === undefined) seen.add('nothing')
      else if (copy.record === null) seen.add('half')
      else seen.add(copy.sizeBytes === 14 ? 'old' : 'new')
    }
  })()
  for (let i = 0; i < 30; i++) await root.publish(ID, arrive(root, i % 2 === 0 ? NEW : OLD))
  over = true
  await reader
  t.ok(seen.has('old') && seen.has('new'), [...seen].join())
  t.notOk(seen.has('half'))
})

t.test('changes of one model run one after another', async (t) => {
  const root = await open(scratch(t))
  const record = arrive(root, NEW)
  const all = await Promise.allSettled([
    root.publish(ID, record), root.publish(ID, record), root.touch(ID, 5), root.remove(ID),
    root.publish(ID, record), root.discard(ID)
  ])
  t.same(all.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'fulfilled', 'fulfilled', 'rejected', 'fulfilled'])
  t.equal(await root.read(ID), undefined)
  t.same(readdirSync(root.root).sort(), ['.incoming', '.trash'])
})

t.test('files that nobody may write any more', async (t) => {
  const root = await open(scratch(t))
  for (const files of [OLD, NEW]) {
    const record = arrive(root, files)
    for (const path of Object.keys(files)) chmodSync(join(root.incoming(ID), path), 0o444)
    await root.publish(ID, record)
  }
  t.equal(statSync(join(published(root), 'config.json')).mode & 0o777, 0o444)
  t.equal(await root.remove(ID), 20)
  mkdirSync(root.incoming(ID))
})
