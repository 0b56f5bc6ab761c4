import { randomUUID } from 'node:crypto'
import {
  existsSync, linkSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { ModelRoot } from '../files/root.js'
import { recordOf, scratch, write, type Files } from './files-kit.js'

const FILES: Files = { 'config.json': '{}', 'onnx/model.onnx': 'weights', 'empty.txt': '' }
const DAY_MS = 24 * 3600 * 1000

async function rootIn (folder: string, startMs?: number): Promise<ModelRoot> {
  const root = new ModelRoot({ root: folder, clock: manualClock(startMs) })
  await root.prepare()
  return root
}

/** Creates a published copy. */
function put (root: ModelRoot, modelId: string, files: Files, record: unknown): string {
  const folder = join(root.root, modelId.replace('/', '--'))
  write(folder, files)
  if (record !== undefined) {
    const text = typeof record === 'string' ? record : JSON.stringify({ format: 1, ...record as object })
    writeFileSync(join(folder, '.svc-record.json'), text)
  }
  return folder
}

t.test('preparing', async (t) => {
  const top = scratch(t)
  const folder = join(top, 'a/b')
  await rootIn(folder)
  t.same(readdirSync(folder).sort(), ['.incoming', '.trash'])
  for (const name of ['', '.incoming', '.trash']) {
    t.equal(statSync(join(folder, name)).mode & 0o777, 0o700, name)
  }
  await rootIn(folder)
  symlinkSync('a', join(top, 'link'))
  await rootIn(join(top, 'link'))
  t.ok(existsSync(join(top, 'a/.trash')), 'the root itself may be a link of the operator')
  writeFileSync(join(top, 'file'), '')
  for (const bad of [join(top, 'file'), join(top, 'file/below'), '/proc/svc-models']) {
    await t.rejects(rootIn(bad),
      { message: new RegExp(`^The model folder ${bad} cannot be used: E[A-Z]+: `), cause: Error }, bad)
  }
  for (const name of ['.incoming', '.trash']) {
    const planted = join(top, `planted${name}`)
    mkdirSync(planted)
    symlinkSync(top, join(planted, name))
    await t.rejects(rootIn(planted), { message: /is a link/, cause: { name: 'PathError' } }, name)
  }
})

t.test('listing and reading', async (t) => {
  const root = await rootIn(scratch(t))
  t.same(await root.list(), [])
  const record = recordOf('acme/x', FILES)
  const folder = put(root, 'acme/x', FILES, record)
  put(root, 'acme/bare', { f: 'xxxx' }, undefined)
  write(root.root,
    { 'no-model/f': 'x', 'acme--file': 'x', '.incoming/acme--y/f': 'x', '.trash/acme--z/f': 'x' })
  symlinkSync('acme--x', join(root.root, 'acme--link'))
  utimesSync(folder, 1000, 1000)
  utimesSync(join(root.root, 'acme--bare'), 2000, 2000)
  const x = { modelId: 'acme/x', directory: folder, sizeBytes: 9, freeableBytes: 9, lastUsedMs: 1_000_000,
    record, ours: true }
  const bare = {
    modelId: 'acme/bare', directory: join(root.root, 'acme--bare'), sizeBytes: 4, freeableBytes: 0,
    lastUsedMs: 2_000_000, record: null, ours: false
  }
  t.same(await root.list(), [bare, x], 'newest used first')
  t.same(await root.read('acme/x'), x)
  t.equal(await root.read('acme/absent'), undefined)
  t.equal(await root.read('acme/link'), undefined)
  t.equal(await root.read('acme/file'), undefined)
  t.same(await new ModelRoot({ root: join(root.root, 'absent'), clock: manualClock() }).list(), [])
  await root.touch('acme/x', 3_000_001)
  t.same((await root.list()).map((copy) => copy.lastUsedMs), [3_000_001, 2_000_000])
})

t.test('records nobody can trust', async (t) => {
  const good = recordOf('acme/x', FILES)
  const cases: [string, unknown][] = [
    ['an empty file', ''], ['half of it', JSON.stringify({ format: 1, ...good }).slice(0, -9)],
    ['null', 'null'], ['a list', '[]'],
    ['another format', { ...good, format: 2 }], ['no manifest', { ...good, manifest: undefined }],
    ['of another model', recordOf('acme/y', FILES)],
    ['a card of another model', { ...good, card: { modelId: 'acme/y' } }],
    ['no card', { ...good, card: null }],
    ['a wrong sum', { ...good, manifest: { ...good.manifest, totalBytes: 1 } }],
    ['no source', { ...good, source: undefined }], ['no time', { ...good, publishedAt: 5 }],
    ['a file that is not there', recordOf('acme/x', { ...FILES, more: 'x' })],
    ['a file of another size', recordOf('acme/x', { ...FILES, 'empty.txt': 'x' })]
  ]
  for (const [name, record] of cases) {
    const root = await rootIn(scratch(t))
    const folder = put(root, 'acme/x', FILES, record)
    const copy = await root.read('acme/x')
    t.match(copy, { record: null, sizeBytes: 9 }, name)
    if (copy?.ours === true) continue
    await t.rejects(root.remove('acme/x'), { name: 'PathError', message: /not written by svc/ }, name)
    t.equal(readFileSync(join(folder, 'onnx/model.onnx'), 'utf8'), 'weights', name)
  }
  const root = await rootIn(scratch(t))
  const folder = put(root, 'acme/x', FILES, undefined)
  write(root.root, { 'real.json': JSON.stringify({ format: 1, ...good }) })
  symlinkSync('../real.json', join(folder, '.svc-record.json'))
  t.match(await root.read('acme/x'), { record: null }, 'a link')
  const other = put(root, 'acme/z', FILES, undefined)
  mkdirSync(join(other, '.svc-record.json'))
  t.match(await root.read('acme/z'), { record: null }, 'a folder')
})

t.test('what somebody else put into a copy keeps it from being replaced', async (t) => {
  for (const [where, stranger] of [['notes.txt', 'notes.txt'], ['onnx/mine.bin', 'onnx/mine.bin'],
    ['mine/notes.txt', 'mine']] as const) {
    const root = await rootIn(scratch(t))
    const folder = put(root, 'acme/x', FILES, recordOf('acme/x', FILES))
    await root.begin('acme/x')
    await root.discard('acme/x')
    write(folder, { [where]: 'mine' })
    const named = { name: 'PathError', message: new RegExp(`${stranger} was not written by svc`) }
    await t.rejects(root.begin('acme/x'), named, where)
    t.equal(readFileSync(join(folder, where), 'utf8'), 'mine')
  }
})

t.test('hostile ids reach nothing', async (t) => {
  const top = scratch(t)
  const root = await rootIn(join(top, 'root'))
  write(join(top, 'outside'), { f: 'x' })
  const record = recordOf('acme/x', FILES)
  const plain = [
    '../outside', '../../x', 'a/../../outside', 'a/\0', 'CON/x', 'a--b/c', '', '.incoming', 'ü/x'
  ]
  for (const id of [...plain, 'x'.repeat(10_240)]) {
    t.throws(() => root.incoming(id), { name: 'PathError' })
    const sinks: (() => Promise<unknown>)[] = [
      async () => await root.read(id), async () => await root.remove(id),
      async () => { await root.discard(id) },
      async () => { await root.touch(id, 0) }, async () => await root.publish(id, record),
      async () => await root.adopt(id, record)
    ]
    for (const sink of sinks) await t.rejects(sink(), { name: 'PathError' }, JSON.stringify(id.slice(0, 20)))
  }
  t.same(readdirSync(top).sort(), ['outside', 'root'])
  t.same(readdirSync(root.root).sort(), ['.incoming', '.trash'])
})

t.test('links in the place of folders', async (t) => {
  const top = scratch(t)
  const root = await rootIn(join(top, 'root'))
  const record = recordOf('acme/x', FILES)
  const outside = join(top, 'outside')
  write(outside, FILES)
  symlinkSync(outside, join(root.root, 'acme--x'))
  symlinkSync(outside, root.incoming('acme/x'))
  const sinks: [string, () => Promise<unknown>][] = [
    ['remove', async () => await root.remove('acme/x')],
    ['discard', async () => { await root.discard('acme/x') }],
    ['touch', async () => { await root.touch('acme/x', 0) }],
    ['publish', async () => await root.publish('acme/x', record)],
    ['adopt', async () => await root.adopt('acme/x', record)]
  ]
  for (const [name, sink] of sinks) await t.rejects(sink(), { name: 'PathError' }, name)
  t.same(readdirSync(outside).sort(), ['config.json', 'empty.txt', 'onnx'])
  t.same(await root.pending(), [])
  const marked = put(root, 'acme/m', FILES, recordOf('acme/m', FILES))
  symlinkSync(join(outside, 'config.json'), join(marked, '.last_used'))
  const before = statSync(join(outside, 'config.json')).mtimeMs
  await t.rejects(root.touch('acme/m', 5), { name: 'PathError' })
  t.equal(statSync(join(outside, 'config.json')).mtimeMs, before)
})

t.test('inner folders that become links', async (t) => {
  const top = scratch(t)
  const outside = join(top, 'outside')
  write(outside, { 'acme--x/config.json': '{}' })
  const planted = join(top, 'root')
  put(await rootIn(join(top, 'other')), 'acme/x', FILES, undefined)
  mkdirSync(planted)
  const root = new ModelRoot({ root: planted, clock: manualClock() })
  put(root, 'acme/x', FILES, recordOf('acme/x', FILES))
  symlinkSync(outside, join(planted, '.trash'))
  symlinkSync(outside, join(planted, '.incoming'))
  const record = recordOf('acme/x', { 'config.json': '{}' })
  const sinks: (() => Promise<unknown>)[] = [
    async () => await root.remove('acme/x'), async () => { await root.discard('acme/x') },
    async () => await root.pending(),
    async () => await root.publish('acme/x', record),
    async () => { await root.sweep({ olderThanMs: -DAY_MS, live: new Set() }) }
  ]
  for (const sink of sinks) await t.rejects(sink(), { name: 'PathError' }, String(sink))
  t.equal(readFileSync(join(outside, 'acme--x/config.json'), 'utf8'), '{}')
  t.ok(existsSync(join(planted, 'acme--x/config.json')))
})

t.test('removing', async (t) => {
  const root = await rootIn(scratch(t))
  t.equal(await root.remove('acme/x'), 0, 'nothing there')
  const folder = put(root, 'acme/x', FILES, recordOf('acme/x', FILES))
  const kept = join(root.root, 'kept')
  write(kept, { f: 'kept' })
  symlinkSync(kept, join(folder, 'link'))
  linkSync(join(folder, 'onnx/model.onnx'), join(root.root, 'second-name'))
  t.match(await root.read('acme/x'), { sizeBytes: 9, freeableBytes: 2 }, 'a second link keeps its bytes')
  write(folder, { 'onnx/notes.txt': 'mine' })
  t.equal(await root.remove('acme/x'), 2)
  t.same(readdirSync(folder).sort(), ['link', 'onnx'])
  t.same(readdirSync(join(folder, 'onnx')), ['notes.txt'],
    'what svc did not write stays where it was')
  t.match(await root.read('acme/x'), { ours: false })
  await t.rejects(root.begin('acme/x'), { name: 'PathError' }, 'nor is it replaced by a transfer')
  rmSync(folder, { recursive: true })
  t.same(readdirSync(join(root.root, '.trash')), [])
  t.ok(existsSync(join(kept, 'f')), 'links are not followed')
  t.equal(readFileSync(join(root.root, 'second-name'), 'utf8'), 'weights')
  put(root, 'acme/x', FILES, recordOf('acme/x', FILES))
  const freed = await Promise.all([root.remove('acme/x'), root.remove('acme/x'), root.read('acme/x')])
  t.same(freed.slice(0, 2), [9, 0], 'two at once')
})

t.test('a removal that a crash cut off leaves no half model', async (t) => {
  const root = await rootIn(scratch(t))
  const half = join(root.root, `.trash/copy-${randomUUID()}`)
  write(half, { 'onnx/model.onnx': 'rest' })
  writeFileSync(join(half, '.svc-record.json'), JSON.stringify({ format: 1, ...recordOf('acme/x', FILES) }))
  write(join(root.root, `.trash/transfer-${randomUUID()}`), { 'onnx/model.onnx': 'rest' })
  write(join(root.root, '.trash/theirs'), { f: 'x' })
  t.same(await root.list(), [])
  await root.sweep({ olderThanMs: DAY_MS, live: new Set() })
  t.same(readdirSync(join(root.root, '.trash')), ['theirs'], 'svc empties of the trash what it put there')
})

t.test('adopting', async (t) => {
  const root = await rootIn(scratch(t))
  const record = recordOf('acme/x', FILES)
  await t.rejects(root.adopt('acme/x', record), { message: /does not exist/ })
  const folder = put(root, 'acme/x', FILES, 'broken')
  t.match(await root.adopt('acme/x', record), { record })
  t.same((await root.read('acme/x'))?.record, record)
  t.notOk(existsSync(join(folder, '.svc-record.json.tmp')))
  await t.rejects(root.adopt('acme/x', recordOf('acme/y', FILES)),
    { message: /for "acme\/y", not for "acme\/x"/ })
  await t.rejects(root.adopt('acme/x', recordOf('acme/x', { ...FILES, more: '' })),
    { message: /"more".*should have 0 bytes.*is missing/ })
  await t.rejects(root.adopt('acme/x', recordOf('acme/x', { ...FILES, 'empty.txt': 'x' })),
    { message: /should have 1 bytes, but has 0/ })
  write(folder, { more: 'x' })
  await t.rejects(root.adopt('acme/x', record), { message: /has 4 files, but the record lists 3/ })
  t.same((await root.read('acme/x'))?.record, record, 'the old record stays')
})

t.test('touching', async (t) => {
  const root = await rootIn(scratch(t))
  await root.touch('acme/absent', 5)
  t.same(readdirSync(root.root).sort(), ['.incoming', '.trash'])
  const folder = put(root, 'acme/x', FILES, undefined)
  await root.touch('acme/x', 5)
  t.notOk(existsSync(join(folder, '.last_used')), 'a folder of somebody else')
  put(root, 'acme/x', FILES, recordOf('acme/x', FILES))
  for (const ms of [1, 1_767_225_600_001, 1_767_225_600_999, 1_800_000_000_123]) {
    await root.touch('acme/x', ms)
    t.equal((await root.read('acme/x'))?.lastUsedMs, ms)
  }
})

t.test('transfers and the sweep', async (t) => {
  const now = Date.UTC(2030, 0, 1)
  const root = await rootIn(scratch(t), now)
  const start = (modelId: string, ageMs: number, names: string[]): void => {
    const folder = root.incoming(modelId)
    names.push('.svc-transfer')
    write(folder, Object.fromEntries(names.map((name) => [name, 'xx'])))
    const at = (now - ageMs) / 1000
    const paths = [...names, 'sub', ''].map((name) => join(folder, name))
    for (const path of paths.filter((path) => existsSync(path))) utimesSync(path, at, at)
  }
  start('acme/old', 2 * DAY_MS, ['a', 'sub/b', '.svc-journal'])
  start('acme/live', 2 * DAY_MS, ['a'])
  start('acme/new', DAY_MS / 2, ['a'])
  start('acme/journal', 2 * DAY_MS, ['a', '.svc-journal'])
  utimesSync(join(root.incoming('acme/journal'), '.svc-journal'), now / 1000, now / 1000)
  start('acme/inner', 2 * DAY_MS, ['a', 'sub/b'])
  utimesSync(join(root.incoming('acme/inner'), 'sub/b'), now / 1000, now / 1000)
  start('acme/future', -2 * DAY_MS, ['a'])
  const theirs = {
    '.incoming/no-model/x': 'x', '.incoming/their--model/f': 'x', '.trash/x/y': 'x', '.trash/f': 'x'
  }
  write(root.root, theirs)
  utimesSync(join(root.root, '.incoming/their--model'), 1, 1)
  const pending = new Map((await root.pending()).map((p) => [p.modelId, p]))
  t.equal(pending.size, 6)
  t.same(pending.get('acme/old'), {
    modelId: 'acme/old', directory: root.incoming('acme/old'), sizeBytes: 4, mtimeMs: now - 2 * DAY_MS
  })
  await root.sweep({ olderThanMs: DAY_MS, live: new Set(['acme/live']) })
  t.same((await root.pending()).map((p) => p.modelId).sort(),
    ['acme/future', 'acme/inner', 'acme/journal', 'acme/live', 'acme/new'])
  for (const path of Object.keys(theirs)) t.ok(existsSync(join(root.root, path)), path)
  await root.discard('their/model')
  await t.rejects(root.begin('their/model'), { name: 'PathError', message: /not written by svc/ })
  t.ok(existsSync(join(root.root, '.incoming/their--model/f')))
  await root.discard('acme/live')
  await root.discard('acme/live')
  t.notOk(existsSync(root.incoming('acme/live')))
})

t.test('two ids that differ in case do not run at once', async (t) => {
  const root = await rootIn(scratch(t))
  put(root, 'acme/x', FILES, recordOf('acme/x', FILES))
  put(root, 'Acme/X', FILES, recordOf('Acme/X', FILES))
  t.same(await Promise.all([root.remove('acme/x'), root.remove('Acme/X')]), [9, 9])
})

t.test('a folder that is published or removed while it is looked at is no failure', async (t) => {
  const root = await rootIn(scratch(t))
  const ids = Array.from({ length: 24 }, (_, n) => `acme/m${n}`)
  const failures = new Set<string>()
  for (let round = 0; round < 4; round++) {
    for (const id of ids) write(await root.begin(id), { a: 'x' })
    let over = false
    const changes = (async () => {
      // Change the last ids first, so that they change before a concurrent read reaches them.
      for (const id of ids.toReversed()) {
        if (round % 2 === 0) await root.discard(id)
        else await root.publish(id, recordOf(id, { a: 'x' }))
        if (round === 3) await root.remove(id)
      }
    })().finally(() => { over = true })
    const looks = [
      async () => await root.pending(), async () => await root.list(), async () => await root.read('acme/m7'),
      async () => { await root.sweep({ olderThanMs: DAY_MS, live: new Set() }) }
    ]
    await Promise.all([changes, ...looks.map(async (look) => {
      while (!over) await look().catch((error: unknown) => { failures.add(String(error)) })
    })])
  }
  t.same([...failures].slice(0, 5), [])
})
