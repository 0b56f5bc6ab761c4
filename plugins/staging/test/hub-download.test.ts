import { randomBytes } from 'node:crypto'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock, type Clock } from '../../../kernel/index.js'
import { checkManifest } from '../files/record.js'
import { hashFile } from '../files/hash.js'
import { createHubClient } from '../hub/client.js'
import { downloadFromHub, type DownloadOptions } from '../store/fetch.js'
import { Job } from '../transfer/job.js'
import { startHub, type FakeHub, type HubModel } from './hub-kit.js'
import type { HubSelection } from '../hub/types.js'
import type { ModelManifest, Progress } from '../types.js'

const MIB = 1024 * 1024
const ID = 'acme/big'
const WEIGHTS = randomBytes(5 * MIB + 123)
const PATH = 'onnx/model.onnx'
const MODEL: HubModel = { files: { 'config.json': '{"a":1}', [PATH]: WEIGHTS, 'vocab.txt': '' } }

interface Rig {
  hub: FakeHub
  folder: string
  selection: HubSelection
  /** Pauses between attempts in ms, which the test skips. */
  waits: number[]
  download: (more?: Partial<DownloadOptions>) => Promise<ModelManifest>
}

async function rig (t: Test, model: HubModel = MODEL, allow = ['**']): Promise<Rig> {
  const hub = await startHub({ models: { [ID]: model } })
  const waits: number[] = []
  let skippedMs = 0
  const clock: Clock = {
    ...systemClock,
    mono: () => systemClock.mono() + skippedMs,
    after (ms, fn) {
      // Round to 250 ms, because a pause is measured from the failure and so is slightly shorter.
      waits.push(Math.round(ms / 250) * 250)
      return systemClock.after(1, () => { skippedMs += ms; fn() })
    }
  }
  const limits = { headersMs: 1000, idleMs: 300 }
  const random = (): number => 0
  const client = createHubClient({ url: hub.url, redirectHosts: [hub.cdnHost], clock, random, limits })
  t.teardown(async () => { await client.close(); await hub.close() })
  const selection = await client.resolve(ID, { allow })
  hub.reset()
  const folder = join(t.testdir({}), 'incoming')
  return {
    hub, folder, selection, waits,
    download: (more = {}) => downloadFromHub({ client, selection, folder, clock, random, ...more })
  }
}

/** Asserts that folder and manifest match the hub. */
async function right (
  t: Test, { folder, selection }: Rig, manifest: ModelManifest, model = MODEL
): Promise<void> {
  t.same(checkManifest(manifest), manifest, 'the manifest is valid')
  t.equal(manifest.revision, selection.commit)
  t.same(manifest.files.map((f) => f.path), selection.files.map((f) => f.path).sort())
  for (const file of manifest.files) {
    const path = join(folder, file.path)
    t.ok(readFileSync(path).equals(Buffer.from(model.files[file.path]!)), `${file.path} is right`)
    t.same(await hashFile(path), { size: file.size, sha256: file.sha256, chunkSha256: file.chunkSha256 })
  }
}

const only = ({ path }: { path: string }): boolean => path === PATH

/** Writes bytes as if an earlier run had left them. */
function leave (folder: string, path: string, bytes: Buffer | string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), bytes)
}

async function failure (t: Test, promise: Promise<unknown>, reason: string): Promise<void> {
  const error = await promise.then(() => new Error('it did not fail'), (e: Error) => e)
  t.match(error, { reason }, error.message)
}

t.test('a whole model, of several chunks', async (t) => {
  const files = { 'large.onnx': randomBytes(33 * MIB), 'even.onnx': randomBytes(16 * MIB) }
  const model = { files: { ...MODEL.files, ...files } }
  const r = await rig(t, model)
  const seen: Progress[] = []
  const manifest = await r.download({ onProgress: (p) => { seen.push(p) } })
  await right(t, r, manifest, model)
  t.same(manifest.files.map((f) => f.chunkSha256.length).sort(), [0, 1, 1, 1, 3])
  t.ok(seen.every((p, i) => i === 0 || p.bytes >= seen[i - 1]!.bytes), 'progress never falls')
  const { totalBytes } = r.selection
  t.same(seen.at(-1), { bytes: totalBytes, totalBytes, files: 5, totalFiles: 5 })
  t.equal(r.hub.sent(), totalBytes, 'each byte once')
  t.same(r.hub.fetches('vocab.txt'), [], 'nothing is asked for an empty file')
  r.hub.reset()
  t.same(await r.download(), manifest, 'a second run finds everything')
  t.equal(r.hub.requests.length, 0, 'and asks for nothing')
})

t.test('what an earlier run left is used as far as it is right', async (t) => {
  const r = await rig(t)
  leave(r.folder, PATH, WEIGHTS.subarray(0, 2 * MIB + 7))
  leave(r.folder, 'config.json', '{"a":2}')
  leave(r.folder, 'vocab.txt', 'too long')
  leave(r.folder, 'gone/model_q4.onnx', 'of another selection')
  leave(r.folder, '.svc-job.json', '{}')
  const started: Progress[] = []
  await right(t, r, await r.download({ onProgress: (p) => { started.push(p) } }))
  t.match(r.hub.fetches(PATH), [{ status: 206, headers: { range: `bytes=${2 * MIB + 7}-` } }])
  t.equal(r.hub.sent(PATH), WEIGHTS.length - 2 * MIB - 7)
  t.equal(r.hub.fetches('config.json').length, 1, 'wrong bytes of the right size are fetched again')
  t.notOk(existsSync(join(r.folder, 'gone/model_q4.onnx')))
  t.ok(existsSync(join(r.folder, '.svc-job.json')))
  truncateSync(join(r.folder, PATH), WEIGHTS.length - 1)
  r.hub.reset()
  await right(t, r, await r.download())
  t.equal(r.hub.sent(), 1)
})

t.test('a connection that breaks goes on where it was', async (t) => {
  for (const part of [0.1, 0.5, 0.99]) {
    const r = await rig(t)
    r.hub.faults = { cutAfter: Math.floor(WEIGHTS.length * part), times: 1, only }
    await right(t, r, await r.download())
    t.equal(r.hub.fetches(PATH).length, 2)
    const more = r.hub.sent(PATH) - WEIGHTS.length
    t.ok(more <= 128 * 1024, `${part}: ${more} bytes more`)
  }
  const r = await rig(t)
  r.hub.faults = { cutAfter: MIB + 1, only }
  await right(t, r, await r.download({ limits: { retries: 1 } }))
  t.equal(r.hub.fetches(PATH).length, 6, 'tries that bring bytes are not counted against the file')
})

t.test('faults that pass', async (t) => {
  const cases: FakeHub['faults'][] = [
    { stallAfter: 1000, times: 1, only }, { status: 500, times: 3 },
    { status: 429, retryAfter: '3', times: 1, only }, { flipAt: 3 * MIB, times: 2, only },
    { mute: true, times: 1, only }, { cutAfter: 0, times: 1, only }
  ]
  for (const faults of cases) {
    const r = await rig(t)
    r.hub.faults = faults
    const seen: number[] = []
    const job = new Job('acme/model', null, { clock: systemClock, onChange: () => {} })
    const onProgress = (progress: Progress): void => {
      job.moved(progress)
      seen.push(job.progress.bytes)
    }
    await right(t, r, await r.download({ onProgress }))
    t.ok(seen.every((bytes, i) => i === 0 || bytes >= seen[i - 1]!), 'progress never falls')
    t.equal(seen.at(-1), r.selection.totalBytes)
    t.ok(r.waits.length > 0 && r.waits.every((ms) => ms >= 500), `paused: ${r.waits.join(' ')}`)
    if (faults.retryAfter !== undefined) t.same([...new Set(r.waits)], [3000])
  }
  const r = await rig(t)
  leave(r.folder, PATH, WEIGHTS.subarray(0, MIB))
  r.hub.faults = { ignoreRange: true, only }
  await right(t, r, await r.download())
  t.same(r.hub.fetches(PATH).map((f) => [f.status, f.headers.range]),
    [[200, `bytes=${MIB}-`], [200, undefined]], 'a server without ranges is asked for all of it')
})

t.test('faults that stay', async (t) => {
  const cases: [FakeHub['faults'], string, number?][] = [
    [{ flipAt: 5, only }, 'hash', 3], [{ flipAt: 1, only: ({ path }) => path === 'config.json' }, 'hash'],
    [{ status: 503, only }, 'unavailable'], [{ status: 404, only }, 'not_found'], [{ gated: true }, 'gated'],
    [{ cutAfter: 10, only }, 'unavailable', 6], [{ endless: true, only }, 'too_long', 1],
    // Without ranges, each retry discards the bytes and makes no progress, so the retries run out.
    [{ ignoreRange: true, cutAfter: 2 * MIB, only }, 'no_range', 6],
    [{ status: 429, retryAfter: '600', only }, 'rate_limited'],
    [{ lengthFactor: 10, only }, 'too_long', 1], [{ encoding: 'gzip', only }, 'encoding', 1]
  ]
  for (const [faults, reason, fetches] of cases) {
    const r = await rig(t)
    r.hub.faults = faults
    await failure(t, r.download(), reason)
    if (fetches !== undefined) t.equal(r.hub.fetches(PATH).length, fetches, `${reason}: ${fetches} fetches`)
    const size = existsSync(join(r.folder, PATH)) ? statSync(join(r.folder, PATH)).size : 0
    t.ok(size <= WEIGHTS.length, `${reason}: no more on disk than the file has`)
  }
  const r = await rig(t)
  r.hub.faults = { status: 500 }
  await failure(t, r.download({ limits: { parallel: 1 } }), 'unavailable')
  t.equal(r.hub.requests.length, 6, 'one try and five more')
  t.same(r.waits, [500, 1000, 2000, 4000, 8000], 'pauses grow')
})

t.test('a download that is stopped can go on', async (t) => {
  const r = await rig(t)
  const stop = new AbortController()
  const stopped = r.download({
    signal: stop.signal,
    onProgress: ({ bytes }) => { if (bytes >= 2 * MIB) stop.abort(new Error('paused')) }
  })
  await t.rejects(stopped, { message: 'paused' })
  const kept = statSync(join(r.folder, PATH)).size
  t.ok(kept >= 2 * MIB, `${kept} bytes are kept`)
  r.hub.reset()
  await right(t, r, await r.download())
  t.equal(r.hub.sent(PATH), WEIGHTS.length - kept)
  await t.rejects(r.download({ signal: AbortSignal.abort(new Error('before')) }), { message: 'before' })
})

t.test('the space is looked at on the way', async (t) => {
  const r = await rig(t)
  const toGo: number[] = []
  await r.download({ spaceEveryBytes: 2 * MIB, space: async (bytes) => { toGo.push(bytes) } })
  t.equal(toGo.length, 2)
  t.ok(toGo[0]! > toGo[1]! && toGo[1]! > 0, toGo.join(' '))
  const again = await rig(t)
  const space = async (): Promise<void> => { throw new Error('does not fit') }
  await t.rejects(again.download({ spaceEveryBytes: MIB, space }), { message: 'does not fit' })
  t.ok(statSync(join(again.folder, PATH)).size < WEIGHTS.length)
})

t.test('a full disk', { skip: process.getuid?.() !== 0 && 'only root can mount' }, async (t) => {
  const r = await rig(t)
  const disk = t.testdir({})
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'none', disk], { stdio: 'ignore' })
  } catch {
    t.comment('this machine lets nobody mount')
    return
  }
  t.teardown(() => { execFileSync('umount', ['-l', disk]) })
  await failure(t, r.download({ folder: join(disk, 'in') }), 'disk_full')
  t.ok(statSync(join(disk, 'in', PATH)).size >= MIB, 'what came is kept')
})
