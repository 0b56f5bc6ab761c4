import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { folderSource, lanSource, modelUrl } from '../peers/sources.js'
import { Network, scratch } from './manager-kit.js'
import { bytesOf } from './transfer-kit.js'
import type { MemberResponse } from '../../../kernel/index.js'
import type { ChunkSource } from '../transfer/types.js'
import type { ModelManifest } from '../types.js'

const BYTES = bytesOf(1000, 1)
const HASH = 'a'.repeat(64)
const { signal } = new AbortController()

async function read (source: ChunkSource, path: string, start: number, end: number): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const part of await source.read(path, { start, end }, signal)) parts.push(part)
  return Buffer.concat(parts)
}

t.equal(modelUrl('acme/m'), '/store/models/acme/m')
t.equal(modelUrl('a b/c?'), '/store/models/a%20b/c%3F', 'each part is escaped')

/** A chunk source on another node with a fixed answer. */
function source (
  answer: Partial<MemberResponse>, kind: 'store' | 'peer' = 'store'
): { source: ChunkSource, net: Network, body: Readable, asked: () => unknown } {
  const net = new Network()
  const one = net.node('one')
  const body = Readable.from([BYTES.subarray(10, 15), BYTES.subarray(15, 20)])
  const two = net.node('two', () => ({
    status: 206, headers: { etag: `"${HASH}"`, 'content-range': 'bytes 10-19/1000' }, body, ...answer
  }))
  const made = lanSource({
    cluster: one, modelId: 'acme/m', installId: 'i-two', kind, digest: 'd', has: (chunk) => chunk === 1,
    manifest: { files: ['a b/ü#?.onnx', 'f'].map((path) => ({ path, sha256: HASH })) } as ModelManifest
  })
  return { source: made, net, body, asked: () => two.asked }
}

t.test('a range of another node', async (t) => {
  const { source: store, asked } = source({})
  t.match({ id: store.id, kind: store.kind, has: [store.has(0), store.has(1)] },
    { id: 'i-two', kind: 'store', has: [false, true] })
  t.ok((await read(store, 'a b/ü#?.onnx', 10, 20)).equals(BYTES.subarray(10, 20)))
  t.match(asked(), [{
    method: 'GET',
    path: '/store/models/acme/m/files/a%20b/%C3%BC%23%3F.onnx?from=store',
    headers: { range: 'bytes=10-19', 'if-range': `"${HASH}"` },
    caller: { authorities: new Set(['read']) },
    timeoutMs: 15_000
  }])
  const peer = source({}, 'peer')
  await read(peer.source, 'f', 10, 20)
  t.match(peer.asked(), [{ path: '/store/models/acme/m/files/f?from=self' }])
})

const etag = `"${HASH}"`
const bad: [string, Partial<MemberResponse>, RegExp][] = [
  ['the whole file', { status: 200 }, /200 instead of 206/],
  ['an error', { status: 409 }, /409 instead of 206/],
  ['another version', { headers: { etag: '"b"', 'content-range': 'bytes 10-19/1000' } }, /another version/],
  ['no version', { headers: { 'content-range': 'bytes 10-19/1000' } }, /another version/],
  ['another range', { headers: { etag, 'content-range': 'bytes 10-18/1000' } }, /"bytes 10-18/],
  ['a longer range', { headers: { etag, 'content-range': 'bytes 10-199/1000' } }, /"bytes 10-199/],
  ['no range', { headers: { etag } }, /sent ""/],
  ['an encoded body', { headers: { etag, 'content-range': 'bytes 10-19/1000', 'content-encoding': 'gzip' } },
    /encoded/]
]
for (const [what, answer, message] of bad) {
  t.test(`${what} is refused, and its body is not read`, async (t) => {
    const { source: store, body } = source(answer)
    await t.rejects(read(store, 'f', 10, 20), { message })
    t.ok(body.destroyed)
  })
}

t.test('a node that is gone', async (t) => {
  const { source: store, net } = source({})
  net.lose('two')
  await t.rejects(read(store, 'f', 10, 20), { name: 'SvcError', reason: 'unreachable' })
})

t.test('the disk as a source', async (t) => {
  const folder = scratch(t)
  writeFileSync(join(folder, 'f'), BYTES)
  const disk = folderSource(folder)
  t.match({ ...disk, has: disk.has(7) }, { id: 'disk', kind: 'store', has: true })
  t.ok((await read(disk, 'f', 10, 20)).equals(BYTES.subarray(10, 20)))
  t.ok((await read(disk, 'f', 0, 1000)).equals(BYTES))
  await t.rejects(read(disk, 'f', 990, 2000), { message: /ended at 1000/ }, 'a file that is too short')
  await t.rejects(read(disk, '../f', 0, 1), { name: 'PathError' })
  await t.rejects(read(disk, 'none', 0, 1), { code: 'ENOENT' })
})

t.test('an abort before anybody reads does not end the process', async (t) => {
  const folder = scratch(t)
  writeFileSync(join(folder, 'f'), BYTES)
  const unhandled: unknown[] = []
  const note = (error: unknown): void => { unhandled.push(error) }
  process.once('uncaughtException', note)
  t.teardown(() => { process.off('uncaughtException', note) })
  const abort = new AbortController()
  const reading = folderSource(folder).read('f', { start: 0, end: 10 }, abort.signal)
  abort.abort(new Error('gone'))
  await reading.catch(() => {})
  for (let i = 0; i < 20; i++) await new Promise((resolve) => { setTimeout(resolve, 1) })
  t.same(unhandled.map(String), [])
})
