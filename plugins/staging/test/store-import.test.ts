import { execFileSync } from 'node:child_process'
import { appendFileSync, existsSync, lstatSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import type { ModelCard } from '../../../kernel/index.js'
import { manifestDigest } from '../files/record.js'
import {
  bytes, contents, done, ended, gate, ID, importFolder, memoryLog, MIB, names, open, RoomWatch, scratch,
  until, write
} from './store-kit.js'
import { statusOf } from '../store/download.js'
import { FreeSpace } from '../space/free-space.js'
import { contentOf, manifestOf, memorySource, wrongFiles } from './transfer-kit.js'

const LARGE = {
  'model.onnx': bytes(17 * MIB + 5), 'config.json': '{}', 'voices/en.bin': bytes(3000, 2), 'empty.txt': ''
}
const FILES = { ...LARGE, 'model.onnx': bytes(100_000) }
const TOTAL = 103_002

t.test('a folder is copied, hashed and published read-only', async (t) => {
  const source = write(scratch(t), LARGE)
  const seen: number[] = []
  const store = await open(t, scratch(t), {
    onChange: () => { seen.push(store.status(ID).downloadedBytes) }
  })
  const entry = await importFolder(store, source)
  t.match(entry, { modelId: ID, manifest: { totalBytes: 17 * MIB + 5 + 2 + 3000 }, source: 'file' })
  t.same(entry.manifest.files.map(({ path, size, chunkSha256 }) => [path, size, chunkSha256.length]), [
    ['config.json', 2, 1], ['empty.txt', 0, 0], ['model.onnx', 17 * MIB + 5, 2], ['voices/en.bin', 3000, 1]
  ])
  t.same(await contents(entry.directory), await contents(source))
  for (const { path } of entry.manifest.files) {
    const { mode, nlink, ino } = lstatSync(join(entry.directory, path))
    t.equal(mode & 0o777, 0o444, `${path} is read-only`)
    t.equal(nlink, 1, `${path} is no hard link`)
    t.not(ino, lstatSync(join(source, path)).ino)
  }
  t.equal(seen.at(-1), entry.manifest.totalBytes)
  t.ok(seen.every((bytes, i) => i === 0 || bytes >= seen[i - 1]!), 'progress never goes back')
  t.same(store.status(ID), {
    modelId: ID, status: 'complete', progress: 1, error: null, reason: null,
    downloadedBytes: entry.manifest.totalBytes, totalBytes: entry.manifest.totalBytes, bytesPerSecond: 0,
    etaMs: null, source: pathToFileURL(source).href,
    revision: null, startedAt: store.status(ID).startedAt
  })
  t.same(store.entries(), [entry])
})

t.test('the same bytes are not copied again, other bytes replace them', async (t) => {
  const source = write(scratch(t), FILES)
  const store = await open(t, scratch(t))
  const first = await importFolder(store, source)
  const { ino } = lstatSync(join(first.directory, 'model.onnx'))
  const same = await importFolder(store, source)
  t.equal(lstatSync(join(first.directory, 'model.onnx')).ino, ino, 'nothing was touched')
  t.equal(same.downloadedAt, first.downloadedAt)
  write(source, { 'config.json': '[]' })
  const other = await importFolder(store, source)
  t.not(manifestDigest(other.manifest), manifestDigest(first.manifest))
  t.same(await contents(other.directory), await contents(source))
  t.same(names(join(store.get(ID)!.directory, '..', '.trash')), [])
})

t.test('what cannot be a source is refused with a sentence', async (t) => {
  const folder = scratch(t)
  const store = await open(t, folder)
  const source = scratch(t)
  const refused = async (path: string, reason: string, message: RegExp): Promise<void> => {
    await t.rejects(importFolder(store, path), { name: 'StoreError', reason, message })
    t.equal(store.get(ID), undefined)
    t.same(names(join(folder, '.incoming')), [], 'nothing is left')
  }
  await refused(join(source, 'absent'), 'bad_source', /cannot read .*absent/)
  await refused(source, 'bad_source', /has no model files/)
  write(source, { 'notes.txt': 'x' })
  await refused(join(source, 'notes.txt'), 'bad_source', /is neither a folder nor a \.gguf or \.onnx file/)
  await refused(folder, 'bad_source', /overlaps with the store/)
  await refused(join(folder, '.incoming'), 'bad_source', /overlaps with the store/)
  await refused(join(folder, '..'), 'bad_source', /overlaps with the store/)
  symlinkSync('/etc/hostname', join(source, 'model.onnx'))
  await refused(source, 'bad_path', /model\.onnx.*link/)
  rmSync(join(source, 'model.onnx'))
  write(source, { 'a model.onnx': 'x' })
  await refused(source, 'bad_path', /a model\.onnx/)
  rmSync(join(source, 'a model.onnx'))
  execFileSync('mkfifo', [join(source, 'pipe')])
  await refused(source, 'bad_path', /pipe/)
  const escape = importFolder(store, source, '../../x')
  await t.rejects(escape, { name: 'StoreError', reason: 'invalid_model_id' })
  t.throws(() => store.start(ID, { source: 'file://x/y' }), { name: 'StoreError', reason: 'bad_source' })
  const device = { name: 'StoreError', reason: 'invalid_model_id' }
  t.throws(() => store.start('CON/x', { source: 'file:///x' }), device)
})

t.test('a home of a node, a way over a link and what is no model are not read', async (t) => {
  const folder = scratch(t)
  const store = await open(t, scratch(t))
  write(folder, {
    'home/node.key': 'KEY', 'home/models/model.onnx': 'x', 'home/model.onnx': 'x',
    'above/users/ann/.svc/node.key': 'KEY', 'above/model.onnx': 'x',
    'keys/id_ed25519': 'SECRET', 'keys/known_hosts': 'x', 'keys/notes.txt': 'SECRET',
    'mixed/model.onnx': 'weights', 'mixed/id_rsa': 'SECRET', 'mixed/.ssh/config.json': 'SECRET',
    'mixed/.netrc': 'SECRET', 'mixed/data.sqlite': 'SECRET', 'mixed/server.key': 'SECRET',
    'mixed/LICENSE': 'MIT', 'mixed/sub/tokenizer.json': '{}', 'mixed/big/more.npy': 'more'
  })
  symlinkSync(join(folder, 'mixed'), join(folder, 'link'))
  symlinkSync(folder, join(folder, 'keys', 'up'))
  const refused = async (path: string, message: RegExp): Promise<void> => {
    await t.rejects(importFolder(store, join(folder, path)), { reason: 'bad_source', message }, path)
  }
  await refused('home', /is in the home folder of a node/)
  await refused('home/models', /is in the home folder of a node/)
  await refused('above', /has the home folder of a node, users\/ann\/\.svc/)
  await refused('link', /is a link or has one in its path; use .*mixed/)
  await refused('keys/up/mixed', /has one in its path; use .*mixed/)
  rmSync(join(folder, 'keys', 'up'))
  await refused('keys', /has neither GGUF nor ONNX weights, nor a card\.yaml/)
  const paths = (): string[] => store.get(ID)!.manifest.files.map(({ path }) => path)
  await importFolder(store, join(folder, 'mixed'))
  t.same(paths(), ['LICENSE', 'big/more.npy', 'model.onnx', 'sub/tokenizer.json'])
  const allow = ['*.onnx', 'sub/**', '.ssh/*']
  store.start(ID, { source: pathToFileURL(join(folder, 'mixed')).href, allow })
  t.match(await ended(store, ID), { status: 'complete' })
  t.same(paths(), ['model.onnx', 'sub/tokenizer.json'], 'what `allow` names, and of it only what is a model')
})

t.test('a folder that says nothing about itself fails before a byte is copied', async (t) => {
  const source = write(scratch(t), { 'other.onnx': bytes(1000) })
  const folder = scratch(t)
  const store = await open(t, folder)
  await t.rejects(importFolder(store, source), {
    name: 'StoreError', reason: 'unusable_model', message: /cannot tell what this is: no model\.onnx/
  })
  t.match(store.status(ID), { status: 'failed', reason: 'unusable_model', downloadedBytes: 0 })
  t.same(names(join(folder, '.incoming')), [], 'nothing is left')
  write(source, { 'model.onnx': 'now there is' })
  t.ok(await importFolder(store, source))
  t.same(names(folder), ['.incoming', '.trash', 'acme--voice'])
})

t.test('names decide before a byte is copied: foreign weights, and several models', async (t) => {
  const folder = scratch(t)
  const store = await open(t, folder)
  const cases: [Record<string, string>, RegExp][] = [
    [{ 'model.safetensors': 'x', 'config.json': '{}' }, /has safetensors without a tokenizer beside them/],
    [{ 'config.json': '{}' }, /has neither GGUF nor ONNX weights/],
    [{ 'a-Q4_1.gguf': 'xxx', 'b.gguf': 'x', 'mmproj-a.gguf': 'x' },
      /2 models: a-Q4_1\.gguf \(1 MiB\), b\.gguf .* Pull one of them, as in `svc pull .*\/a-Q4_1\.gguf`/],
    [{ 'v/en.onnx': 'x', 'v/en.onnx.json': '{}', 'b.gguf': 'x', 'mini/onnx/model.onnx': 'x',
      'mini/onnx/model_q4.onnx': 'x' }, /3 models: b\.gguf .*v\/en\.onnx .*mini\/onnx\/model\.onnx/]
  ]
  for (const [files, message] of cases) {
    const source = write(scratch(t), files)
    await t.rejects(importFolder(store, source), { name: 'StoreError', reason: 'bad_source', message })
    t.same(names(join(folder, '.incoming')), [])
  }
})

t.test('a file is taken with what belongs to it, whatever lies beside it', async (t) => {
  const source = write(scratch(t), {
    'Smol-7B-Q4_1.gguf': 'x', 'mmproj-Smol-7B-f16.gguf': 'x', 'mmproj-Smol-7B-Q8_0.gguf': 'x',
    'mmproj-Other-f16.gguf': 'x', 'mmproj-model-f16.gguf': 'x', 'Other-Q8_0.gguf': 'x', 'notes.txt': 'SECRET',
    'Big-00001-of-00002.gguf': 'x', 'Big-00002-of-00002.gguf': 'x', 'my paper.pdf': 'x', 'LICENSE': 'x',
    'only/S-Q4_K_M.gguf': 'x', 'only/S-Q8_0.gguf': 'x', 'only/mmproj-f16.gguf': 'x',
    'only/chat_template.jinja': 'x', 'only/notes.json': '{}',
    'mini/onnx/model.onnx': 'x', 'mini/onnx/model_q4.onnx': 'x', 'mini/onnx/model_q4.onnx_data': 'x',
    'mini/config.json': '{}', 'mini/tokenizer.json': '{}', 'mini/notes.txt': 'x',
    'mini/1_Pooling/config.json': '{}',
    'voices/en.onnx': 'x', 'voices/en.onnx.json': '{}', 'voices/fr.onnx': 'x', 'voices/config.json': '{}'
  })
  symlinkSync('/etc/hostname', join(source, 'link'))
  symlinkSync(join(source, 'Other-Q8_0.gguf'), join(source, 'linked.gguf'))
  const derive = async (): Promise<ModelCard> => ({ modelId: ID }) as ModelCard
  const store = await open(t, scratch(t), { derive })
  const cases: [string, string[]][] = [
    ['Smol-7B-Q4_1.gguf', ['Smol-7B-Q4_1.gguf', 'mmproj-Smol-7B-f16.gguf']],
    ['Other-Q8_0.gguf', ['Other-Q8_0.gguf', 'mmproj-Other-f16.gguf']],
    ['Big-00002-of-00002.gguf', ['Big-00001-of-00002.gguf', 'Big-00002-of-00002.gguf']],
    ['only/S-Q8_0.gguf', ['S-Q8_0.gguf', 'chat_template.jinja', 'mmproj-f16.gguf']],
    ['mini/onnx/model_q4.onnx', ['1_Pooling/config.json', 'config.json', 'onnx/model_q4.onnx',
      'onnx/model_q4.onnx_data', 'tokenizer.json']],
    ['voices/en.onnx', ['en.onnx', 'en.onnx.json']]
  ]
  for (const [file, paths] of cases) {
    const { manifest } = await importFolder(store, join(source, file))
    t.same(manifest.files.map(({ path }) => path), paths, file)
  }
  const refused: [string, RegExp][] = [
    ['mmproj-Other-f16.gguf', /is a part of a model; pull the model's own file/],
    ['notes.txt', /is neither a folder nor a \.gguf or \.onnx file/], ['linked.gguf', /is a link/]
  ]
  for (const [file, message] of refused) {
    await t.rejects(importFolder(store, join(source, file)), { reason: 'bad_source', message }, file)
  }
})

t.test('a source that changes meanwhile is not taken', async (t) => {
  const source = write(scratch(t), FILES)
  const changes: [string, () => void][] = [
    ['a file grows', () => { appendFileSync(join(source, 'config.json'), 'x') }],
    ['a file is replaced by one of its size', () => { writeFileSync(join(source, 'config.json'), 'XYZ') }],
    ['a file comes', () => { writeFileSync(join(source, 'new.txt'), '') }],
    ['a file goes', () => { rmSync(join(source, 'new.txt')) }]
  ]
  for (const [name, change] of changes) {
    let once: (() => void) | undefined = change
    const store = await open(t, scratch(t), {
      // The first progress report comes after the folder scan and before the copy ends.
      onChange: () => {
        if (store.status(ID).downloadedBytes === 0) return
        once?.()
        once = undefined
      }
    })
    const imported = importFolder(store, source)
    await t.rejects(imported, { name: 'StoreError', reason: 'source_changed' }, name)
    t.equal(once, undefined, 'the change was made')
    t.equal(store.get(ID), undefined)
  }
})

t.test('an import that is cancelled goes on from its files', async (t) => {
  const source = write(scratch(t), FILES)
  const folder = scratch(t)
  let cancelled: Promise<unknown> | undefined
  const store = await open(t, folder, {
    onChange: () => { if (store.status(ID).downloadedBytes > 0) cancelled ??= store.cancel(ID) }
  })
  await t.rejects(importFolder(store, source), { name: 'StoreError', reason: 'cancelled' })
  await cancelled
  t.match(store.status(ID), { status: 'cancelled', error: null })
  t.same(names(folder), ['.incoming', '.trash'])
  await importFolder(store, source)
  t.same(await contents(store.get(ID)!.directory), await contents(source))
})

t.test('files an earlier import left are kept when their bytes are right', async (t) => {
  const source = write(scratch(t), FILES)
  const folder = scratch(t)
  const incoming = join(folder, '.incoming', 'acme--voice')
  write(incoming, { ...FILES, 'config.json': '{]', 'stray/file': 'x', '.svc-transfer': '' })
  rmSync(join(incoming, 'empty.txt'))
  write(incoming, { 'empty/file': 'a folder where a file belongs' })
  const kept = lstatSync(join(incoming, 'model.onnx')).ino
  const store = await open(t, folder)
  const { directory } = await importFolder(store, source)
  t.equal(lstatSync(join(directory, 'model.onnx')).ino, kept)
  t.same(await contents(directory), await contents(source))
  t.equal(existsSync(join(directory, 'stray')), false, 'an empty folder is not left either')
})

t.test('admission is asked with the bytes, before the first is written', async (t) => {
  const source = write(scratch(t), FILES)
  const folder = scratch(t)
  const asked: number[] = []
  const refusing = await open(t, folder, {
    freeSpace: new RoomWatch(async (bytes) => {
      asked.push(bytes)
      throw Object.assign(new Error('12 GiB do not fit: 11 GiB are free'), { reason: 'no_safe_fit' })
    })
  })
  const imported = importFolder(refusing, source)
  await t.rejects(imported, { name: 'StoreError', reason: 'no_safe_fit', message: /12 GiB/ })
  t.same(asked, [TOTAL])
  t.same(names(join(folder, '.incoming')), [])
  t.match(refusing.status(ID), { status: 'failed', reason: 'no_safe_fit' })
})

t.test('who waits for admission is pending, and can be cancelled at once', async (t) => {
  const source = write(scratch(t), FILES)
  const turn = gate()
  const [folder, freeSpace] = [scratch(t), new FreeSpace(0)]
  const store = await open(t, folder, { freeSpace })
  const before = freeSpace.alone(folder, undefined, async () => { await turn.opened })
  const job = store.start(ID, { source: pathToFileURL(source).href })
  await until(() => statusOf(job).totalBytes > 0)
  t.match(statusOf(job), { status: 'pending', totalBytes: TOTAL, progress: 0 })
  t.match(await store.cancel(ID), { status: 'cancelled' })
  turn.open()
  await before
  t.same(store.entries(), [])
  t.match(await ended(store, ID), { status: 'cancelled' })
})

t.test('a folder put into the store by hand is hashed and taken in', async (t) => {
  const folder = scratch(t)
  write(join(folder, 'acme--voice'), FILES)
  write(join(folder, 'acme--riddle'), { 'x.txt': '?' })
  write(join(folder, 'lost+found'), { x: '' })
  const log = memoryLog()
  const changed: string[] = []
  const store = await open(t, folder, { log, onChange: (modelId) => { changed.push(modelId) } })
  await store.checkedAt
  const entry = store.get(ID)
  t.match(entry, { source: 'file', card: { modelId: ID }, manifest: { revision: 'local' } })
  t.equal(lstatSync(join(folder, 'acme--voice', 'model.onnx')).mode & 0o777, 0o444)
  t.match(store.problems(), [{ modelId: 'acme/riddle', problem: /no model\.onnx/ }])
  t.ok(log.lines.some(([, fields]) => fields['modelId'] === 'acme/riddle'), 'the log says why')
  t.ok(changed.includes(ID))
  await store.close()

  write(join(folder, 'acme--riddle'), { 'model.onnx': 'solved' })
  write(join(folder, 'acme--late'), { 'model.onnx': 'late' })
  rmSync(join(folder, 'acme--voice'), { recursive: true })
  const next = await open(t, folder)
  await next.checkedAt
  t.same(next.entries().map(({ modelId }) => modelId).sort(), ['acme/late', 'acme/riddle'])
  t.same(next.problems(), [])
  t.equal(next.status(ID).status, 'not_found')
})

t.test('a copy that lost a file is not offered, and not vouched for anew', async (t) => {
  const folder = scratch(t)
  const source = write(scratch(t), FILES)
  const first = await open(t, folder)
  const { directory } = await importFolder(first, source)
  rmSync(join(directory, 'config.json'))
  await first.close()
  const second = await open(t, folder)
  await second.checkedAt
  t.equal(second.get(ID), undefined)
  const problem = /pull acme\/voice again, or remove .*\.svc-record\.json/
  t.match(second.problems(), [{ modelId: ID, problem }])
  t.equal(second.status(ID).status, 'not_found')
  await importFolder(second, source)
  t.same(second.problems(), [])
  t.same(await contents(directory), await contents(source))
})

t.test('removal gives the bytes back and ends what was asked before', async (t) => {
  const folder = scratch(t)
  const source = write(scratch(t), FILES)
  const store = await open(t, folder)
  const message = /The store has no model acme\/voice/
  await t.rejects(store.remove(ID), { name: 'StoreError', reason: 'not_in_store', message })
  await t.rejects(importFolder(store, join(source, 'absent')))
  await t.rejects(store.remove(ID), { reason: 'not_in_store', message }, 'a failed download is no model')
  t.same(store.downloads(), [], 'but its error is gone')
  await t.rejects(store.remove('../x'), { name: 'StoreError', reason: 'invalid_model_id' })
  await importFolder(store, source)
  t.equal(await store.remove(ID), TOTAL)
  t.same(names(folder), ['.incoming', '.trash'])
  t.equal(store.status(ID).status, 'not_found')
  t.same(store.downloads(), [])

  const job = store.start(ID, { source: pathToFileURL(source).href })
  const removed = store.remove(ID)
  const next = store.start(ID, { source: pathToFileURL(source).href })
  t.not(next, job, 'who starts after a removal gets a new download')
  await removed
  t.match(await done(job), { status: 'cancelled' })
  t.match(await done(next), { status: 'complete' })
  t.same(await contents(store.get(ID)!.directory), await contents(source))
})

t.test('a node is a source too', async (t) => {
  const content = contentOf({ 'model.onnx': 3 })
  const manifest = { ...manifestOf(content), modelId: ID }
  const asked: unknown[] = []
  const store = await open(t, scratch(t), {
    fromNode: async (modelId, installId, signal) => {
      asked.push([modelId, installId, signal.aborted])
      return { manifest, digest: manifestDigest(manifest), source: memorySource(content, { kind: 'peer' }) }
    }
  })
  t.match(await done(store.start(ID, { source: 'node:node-1' })),
    { status: 'complete', source: 'node:node-1', totalBytes: 3 })
  t.same(asked, [[ID, 'node-1', false]])
  t.match(store.get(ID), { source: 'node', card: { modelId: ID } })
  t.same(await wrongFiles(store.get(ID)!.directory, content), [])
  const full = await open(t, scratch(t), {
    fromNode: async () => ({ manifest, digest: manifestDigest(manifest), source: memorySource(content) }),
    freeSpace: new RoomWatch(async () => {
      throw Object.assign(new Error('no room'), { reason: 'no_safe_fit' })
    })
  })
  t.match(await done(full.start(ID, { source: 'node:node-1' })), { status: 'failed', reason: 'no_safe_fit' })
})
