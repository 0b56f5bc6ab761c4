import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { Swarm } from '../transfer/swarm.js'
import { CHUNK_BYTES, StoreError, type Progress } from '../types.js'
import { MIB, contentOf, fetchInto, inPieces, manifestOf, memorySource, wrongFiles } from './transfer-kit.js'

const content = contentOf({
  'config.json': 700, 'empty.txt': 0, 'onnx/model.onnx': 2 * CHUNK_BYTES + 3 * MIB + 5
})
const manifest = manifestOf(content)

t.test('fetches every file from one source', async (t) => {
  const folder = join(t.testdir(), 'incoming')
  const source = memorySource(content, { piece: 100_000 })
  const chunks: number[] = []
  const progress: Progress[] = []
  await fetchInto(folder, manifest, [source], {
    onChunk: (i) => { chunks.push(i) }, onProgress: (p) => { progress.push(p) }
  })
  t.same(await wrongFiles(folder, content), [])
  t.same(chunks.sort(), [0, 1, 2, 3])
  t.equal(source.given, manifest.totalBytes, 'nothing twice')
  const { totalBytes } = manifest
  t.same(progress.at(-1), { bytes: totalBytes, totalBytes, files: 3, totalFiles: 3 })
  t.ok(progress.every(({ bytes }, i) => i === 0 || bytes >= progress[i - 1]!.bytes), 'never falls')
})

t.test('a model of empty files needs no source', async (t) => {
  const folder = t.testdir()
  const empty = contentOf({ a: 0, 'b/c': 0 })
  await fetchInto(folder, manifestOf(empty), [])
  t.same(await wrongFiles(folder, empty), [])
})

t.test('asks other nodes before the store, and uses both', async (t) => {
  const folder = t.testdir()
  const store = memorySource(content)
  const peer = memorySource(content, { id: 'peer', kind: 'peer', has: (i) => i === 1 || i === 3 })
  const swarm = new Swarm(4)
  swarm.setPeer('peer', new Uint8Array([0b1010]))
  const taken: number[] = []
  await fetchInto(folder, manifest, [store, peer], { swarm, onTake: (i) => { taken.push(i) } })
  t.same(await wrongFiles(folder, content), [])
  t.same(peer.asked.map(({ start }) => start).sort(), [0, 2 * CHUNK_BYTES])
  t.same(taken.sort(), [0, 2], 'what was asked of the store')
})

t.test('faults of a source: the chunk goes on elsewhere', async (t) => {
  const wrong = (right: Buffer): Buffer => {
    const bytes = Buffer.from(right)
    bytes[bytes.length - 1]! ^= 1
    return bytes
  }
  type Spoil = NonNullable<Parameters<typeof memorySource>[1]>['spoil']
  const faults: Record<string, Spoil> = {
    short: (right) => inPieces(right.subarray(0, right.length >> 1)),
    'too long': (right) => inPieces(Buffer.concat([right, Buffer.alloc(10)])),
    endless: () => (async function * () { for (;;) yield Buffer.alloc(MIB) })(),
    'wrong byte': (right) => inPieces(wrong(right)),
    refuses: async () => { throw new Error('404') },
    'throws in the middle': (right) => (async function * () {
      yield right.subarray(0, right.length >> 1)
      throw new Error('reset')
    })()
  }
  for (const [name, spoil] of Object.entries(faults)) {
    t.test(name, async (t) => {
      const folder = t.testdir()
      // Peers come before the store, so the faulty peer is used first and the store must replace it.
      const bad = memorySource(content, { id: 'bad', kind: 'peer', ...spoil === undefined ? {} : { spoil } })
      const good = memorySource(content)
      await fetchInto(folder, manifest, [bad, good])
      t.same(await wrongFiles(folder, content), [])
      t.ok(bad.asked.length > 0)
      t.equal((await stat(join(folder, 'onnx/model.onnx'))).size, content.get('onnx/model.onnx')!.length)
    })
  }
})

t.test('a body that breaks off goes on at the offset reached, with the same source too', async (t) => {
  const folder = t.testdir()
  const source = memorySource(content, {
    spoil: (right, call) =>
      inPieces(call % 2 === 1 && right.length > 5 * MIB ? right.subarray(0, 5 * MIB) : right)
  })
  await fetchInto(folder, manifest, [source])
  t.same(await wrongFiles(folder, content), [])
  t.equal(source.given, manifest.totalBytes, 'no byte twice')
  t.ok(source.asked.some(({ start }) => start % CHUNK_BYTES === 5 * MIB))
})

t.test('three wrong hashes of a chunk end it', async (t) => {
  const source = memorySource(content, { spoil: (right) => inPieces(Buffer.alloc(right.length)) })
  const error = await fetchInto(t.testdir(), manifest, [source]).catch((e: unknown) => e)
  t.match(error, { name: 'StoreError', reason: 'hash', message: /store: sent wrong bytes of chunk 0/ })
})

t.test('who gave wrong bytes of a chunk is not asked for it again while another has it', async (t) => {
  const one = contentOf({ 'a.bin': 3 * MIB })
  const bad = memorySource(one, {
    id: 'bad', kind: 'peer', spoil: (right) => inPieces(Buffer.alloc(right.length))
  })
  const good = memorySource(one)
  const folder = t.testdir()
  // Without pauses, the peer would always be asked first, but it sent wrong bytes for this chunk.
  await fetchInto(folder, manifestOf(one), [bad, good], { limits: { backoffMs: 0, backoffMaxMs: 0 } })
  t.equal(bad.asked.length, 1)
  t.same(await wrongFiles(folder, one), [])
})

t.test('gives up when no source is left', async (t) => {
  t.test('all fail', async (t) => {
    const source = memorySource(content, { spoil: async () => { throw new Error('connection refused') } })
    const error = await fetchInto(t.testdir(), manifest, [source]).catch((e: unknown) => e)
    const message = /4 of 4 chunks of acme\/model: store: connection refused/
    t.match(error, { reason: 'no_source', message })
    t.ok(source.asked.length >= 6 && source.asked.length <= 12, `${source.asked.length} attempts`)
  })
  t.test('nobody has a chunk', async (t) => {
    const source = memorySource(content, { has: (i) => i !== 2 })
    const folder = t.testdir()
    const error = await fetchInto(folder, manifest, [source]).catch((e: unknown) => e)
    t.match(error, { reason: 'no_source', message: /1 of 4 chunks/ })
    // The first transfer kept the other chunks, so the next one requests only the missing chunk.
    const again = memorySource(content)
    await fetchInto(folder, manifest, [again])
    t.equal(again.given, CHUNK_BYTES)
  })
  t.test('a dead one beside one without the chunk', async (t) => {
    const dead = memorySource(content, { spoil: async () => { throw new Error('no route') } })
    const poor = memorySource(content, { id: 'poor', kind: 'peer', has: () => false })
    const running = fetchInto(t.testdir(), manifest, [dead, poor])
    await t.rejects(running, { reason: 'no_source', message: /no route/ })
  })
})

t.test('goes on when a source turns up later', async (t) => {
  const sources: Array<ReturnType<typeof memorySource>> = []
  let tell = (): void => {}
  const running = fetchInto(t.testdir(), manifest, sources, {
    onSources: (fn) => { tell = fn; return () => { tell = () => {} } },
    limits: { backoffMs: 60_000, backoffMaxMs: 60_000 }
  })
  await new Promise((resolve) => setImmediate(resolve))
  sources.push(memorySource(content))
  tell()
  await running
  t.equal(sources[0]!.given, manifest.totalBytes)
})

t.test('a stalled source is left: idle, slow, or one that never answers', async (t) => {
  const one = contentOf({ 'a.bin': 3 * MIB })
  const never = async (): Promise<never> => await new Promise(() => {})
  const bodies = {
    'no answer': never,
    idle: (right: Buffer) => (async function * () { yield right.subarray(0, 2 * MIB); await never() })(),
    'one byte a second': (right: Buffer) => (async function * () {
      for (let i = 0; i < right.length; i++) {
        yield right.subarray(i, i + 1)
        await new Promise<void>((resolve) => clock.after(1000, resolve))
      }
    })()
  }
  let clock = manualClock()
  for (const [name, spoil] of Object.entries(bodies)) {
    clock = manualClock()
    const slow = memorySource(one, { id: 'slow', kind: 'peer', spoil })
    const good = memorySource(one)
    const folder = t.testdir({ [name]: {} })
    let done = false
    const running = fetchInto(join(folder, name), manifestOf(one), [slow, good], { clock })
      .then(() => { done = true })
    // Advance the clock until the transfer is done, however long the disk takes.
    while (!done) await clock.advance(1000)
    await running
    t.same(await wrongFiles(join(folder, name), one), [], name)
    t.ok(good.asked.length > 0, 'another one was asked')
    if (name === 'idle') t.equal(good.given, MIB, 'at the offset reached')
  }
})

t.test('an abort ends it with its reason; the next run goes on', async (t) => {
  const folder = t.testdir()
  const abort = new AbortController()
  const { signal } = abort
  const message = 'paused by the operator'
  const source = memorySource(content, { spoil: (right, call) => (async function * () {
    yield * inPieces(right.subarray(0, 3 * MIB + 10))
    if (call === 3) abort.abort(new Error(message))
    if (right.length > 4 * MIB) await new Promise(() => {})
    yield right.subarray(3 * MIB + 10)
  })() })
  await t.rejects(fetchInto(folder, manifest, [source], { signal }), { message })
  const again = memorySource(content)
  await fetchInto(folder, manifest, [again])
  t.same(await wrongFiles(folder, content), [])
  t.equal(source.given + again.given, manifest.totalBytes, 'no byte twice')
  await t.rejects(fetchInto(folder, manifest, [again], { signal }), { message })
})

t.test('errors of this disk end it', async (t) => {
  const folder = join(t.testdir({ incoming: 'a file' }), 'incoming')
  const error = await fetchInto(folder, manifest, [memorySource(content)]).catch((e: unknown) => e)
  t.ok(error instanceof StoreError)
  t.match(error, { reason: 'unwritable', message: /incoming/ })
})
