import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { once } from 'node:events'
import { fileURLToPath, pathToFileURL } from 'node:url'
import t from 'tap'
import { ModelRoot } from '../files/root.js'
import { systemClock } from '../../../kernel/index.js'
import { startHub } from './hub-kit.js'
import { bytes, clientOf, contents, ended, ID, MIB, names, open, scratch, until, write } from './store-kit.js'

const CHILD = fileURLToPath(new URL('store-child.ts', import.meta.url))
const LOADER = `--import=${new URL('../../../test/tools/typescript.mjs', import.meta.url).href}`
const WEIGHTS = bytes(6 * MIB, 3)

/** Runs a store in a child process with one download; resolves once it reports enough bytes. */
async function runUntil (
  t: { teardown (fn: () => unknown): void }, setup: object, enough: number
): Promise<ChildProcess> {
  const child = spawn(process.execPath, [LOADER, CHILD, JSON.stringify(setup)], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => { child.kill('SIGKILL') })
  let text = ''
  for await (const piece of child.stdout) {
    text += String(piece)
    if (text.split('\n').slice(0, -1).some((line) => Number(line) >= enough)) return child
  }
  throw new Error(`the child ended before it had ${enough} bytes; it said ${text}`)
}

async function kill (child: ChildProcess): Promise<void> {
  const exit = once(child, 'exit')
  child.kill('SIGKILL')
  await exit
}

t.test('kill -9 in the middle of a pull: nothing half published, and it goes on by itself', async (t) => {
  const hub = await startHub({ models: { [ID]: { files: { 'model.onnx': WEIGHTS, 'config.json': '{}' } } } })
  t.teardown(async () => { await hub.close() })
  const folder = scratch(t)
  const setup = { folder, modelId: ID, url: hub.url, cdnHost: hub.cdnHost }
  hub.faults = { only: ({ origin }) => origin === 'cdn', stallAfter: 2 * MIB }
  await kill(await runUntil(t, setup, 2 * MIB))
  t.equal(existsSync(join(folder, 'acme--voice')), false)
  t.same(await new ModelRoot({ root: folder, clock: systemClock }).list(), [])
  hub.faults = {}
  const before = hub.sent('model.onnx')
  t.equal(before, 2 * MIB)
  const store = await open(t, folder, { hub: clientOf(hub) })
  t.match(await ended(store, ID), { status: 'complete' })
  t.equal(hub.sent('model.onnx') - before, 4 * MIB, 'what was there was not fetched again')
  t.same(readFileSync(join(store.get(ID)!.directory, 'model.onnx')), WEIGHTS)
})

t.test('kill -9 in the middle of an import', async (t) => {
  const files = Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`part-${i}.data`, bytes(MIB, i)]))
  const source = write(scratch(t), { ...files, 'model.onnx': WEIGHTS })
  const folder = scratch(t)
  const child = await runUntil(t, { folder, modelId: ID, source: pathToFileURL(source).href }, 1)
  await kill(child)
  const store = await open(t, folder)
  t.match(await ended(store, ID), { status: 'complete' }, 'it went on, unless it was done')
  t.same(await contents(store.get(ID)!.directory), await contents(source))
  t.same(names(join(folder, '.incoming')), [])
})

/** Starts the child process `times` times; each one must kill itself while it imports or downloads. */
async function die (times: number, setup: object): Promise<void> {
  for (let i = 0; i < times; i++) {
    const child = spawn(process.execPath, [LOADER, CHILD, JSON.stringify(setup)], { stdio: 'ignore' })
    const [, signal] = await once(child, 'exit') as [number | null, string | null]
    if (signal !== 'SIGKILL') throw new Error(`the child ended with ${signal}`)
  }
}

t.test('a pull that ended the process twice waits to be asked for again', async (t) => {
  const hub = await startHub({ models: { [ID]: { files: { 'model.onnx': WEIGHTS, 'config.json': '{}' } } } })
  t.teardown(async () => { await hub.close() })
  const folder = scratch(t)
  const setup = { folder, modelId: ID, url: hub.url, cdnHost: hub.cdnHost }
  hub.faults = { only: ({ origin }) => origin === 'cdn', stallAfter: MIB }
  await kill(await runUntil(t, setup, 1))
  for (let i = 0; i < 3; i++) {
    const store = await open(t, folder, { hub: clientOf(hub) })
    await until(() => store.status(ID).downloadedBytes > 0)
    await store.close()
  }
  t.pass('stopping a node is no reason')
  await kill(await runUntil(t, setup, 1))
  await kill(await runUntil(t, setup, 1))
  hub.faults = {}
  const before = hub.sent('model.onnx')
  for (let i = 0; i < 2; i++) {
    const store = await open(t, folder, { hub: clientOf(hub) })
    t.match(store.status(ID),
      { status: 'failed', reason: 'parked', error: /ended 2 times.*`svc downloads resume acme/ })
    await store.close()
  }
  t.equal(hub.sent('model.onnx'), before, 'nothing was fetched')
  const store = await open(t, folder, { hub: clientOf(hub) })
  store.start(ID)
  t.match(await ended(store, ID), { status: 'complete' }, 'a new request tries again, with what was there')
})

t.test('so does one that ends the process when its card is made', async (t) => {
  const source = write(scratch(t), { 'model.onnx': bytes(MIB) })
  const folder = scratch(t)
  await die(2, { folder, modelId: ID, source: pathToFileURL(source).href, deadly: true })
  const store = await open(t, folder)
  t.match(store.status(ID), { status: 'failed', reason: 'parked' })
  t.equal(store.get(ID), undefined)
})

t.test('a folder that ended the process twice is left alone', async (t) => {
  const folder = scratch(t)
  write(folder, { 'acme--voice/model.onnx': 'x', 'acme--other/model.onnx': 'x' })
  await die(2, { folder, modelId: ID, deadly: true })
  const store = await open(t, folder)
  await store.checkedAt
  const [first] = store.problems()
  t.match(store.problems(), [{ problem: /ended the process 2 times.*\.svc-attempts\.json/ }])
  t.equal(store.entries().length, 1, 'the other one is taken in')
  await store.close()
  rmSync(join(folder, '.svc-attempts.json'))
  const again = await open(t, folder)
  await again.checkedAt
  t.same(again.problems(), [])
  t.ok(again.get(first!.modelId), 'and this one, too, when somebody wants it')
})
