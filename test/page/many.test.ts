// The page stays responsive with 200 nodes, 2,000 instances and 50 changes a second.
import { createServer } from 'node:http'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { WebSocketServer, type WebSocket } from 'ws'
import * as decoding from 'lib0/decoding'
import * as encoding from 'lib0/encoding'
import { messageYjsSyncStep1, messageYjsSyncStep2, messageYjsUpdate } from 'y-protocols/sync'
import { KvDoc } from '../../kernel/state/documents/kv-doc.js'
import { entryKey, partsOf } from '../../kernel/state/entries.js'
import { pageFiles } from '../../plugins/dashboard/files.js'
import { figure, inTime, sleep } from '../node/kit.js'
import { openBrowser, openPage, skip } from './kit.js'
import type { AddressInfo } from 'node:net'

const NODES = 200
const INSTANCES = 2000
const CHANGES_PER_SECOND = 50
const SECONDS = 5

const memory = (available: number): object =>
  ({ ramTotal: { inBytes: 64 * 2 ** 30 }, ramAvailable: { inBytes: available } })
const names = (count: number, of: (i: number) => unknown, prefix: string): Record<string, unknown> =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`${prefix}${i}`, of(i)]))

const NO_READINGS = { gpuUsage: null, temp: null, sysPower: null, pcpuUsage: null }
const gpu = (total: number, used: number): object => ({
  vendor: 'acme', name: 'Acme 8', utilizationRatio: 0.5, powerWatts: null, temperatureCelsius: null,
  vramTotalBytes: total * 2 ** 30, vramUsedBytes: used * 2 ** 30
})

function instance (i: number): object {
  const modelCard = { modelId: `acme/m${i}`, tasks: ['chat'], engine: 'onnx-lm', contextLength: 8192 }
  const shard = { modelCard, deviceRank: 0, worldSize: 1, startLayer: 0, endLayer: 4, nLayers: 4 }
  return { RingInstance: {
    instanceId: `i${i}`, contextTokenLimit: 8192, systemRole: null, engine: 'onnx-lm', hostsByNode: null,
    shardAssignments: {
      modelId: `acme/m${i}`, runnerToShard: { [`r${i}`]: { PipelineShardMetadata: shard } },
      nodeToRunner: { [`n${i % NODES}`]: `r${i}` }
    }
  } }
}

/** /state of a cluster with 200 nodes and 2,000 instances. */
function bigState (): Record<string, unknown> {
  const nodes = Array.from({ length: NODES }, (_, i) => `n${i}`)
  const edge = [{ sinkMultiaddr: null, session: true, rttMs: 0.4, bytesPerSecond: null }]
  const identity = (i: number): object => ({
    friendlyName: `node ${i}`, modelId: 'x86_64', chipId: 'a processor', osVersion: 'Linux', svcVersion: '1',
    svcCommit: null, nodeInstallId: `install-${i}`, apiUrl: null
  })
  return {
    sessionId: 's', masterNodeId: 'n0', localNodeId: 'n1', downloads: {}, tasks: {}, tracingEnabled: false,
    instances: names(INSTANCES, instance, 'i'), runners: names(INSTANCES, () => ({ RunnerReady: {} }), 'r'),
    topology: { nodes, connections: { n0: Object.fromEntries(nodes.slice(1).map((id) => [id, edge])) } },
    nodeIdentities: names(NODES, identity, 'n'), nodeMemory: names(NODES, () => memory(2 ** 34), 'n'),
    nodeSystem: { n5: { ...NO_READINGS, accelerators: [gpu(8, 6), gpu(8, 2)] } },
    nodeHealth: names(NODES, () => ({ level: 'ok', reasons: [] }), 'n'), instanceFailures: [],
    cluster: { term: 1, quorum: 'ok', stale: false, partition: false, knownNodes: NODES, liveNodes: NODES }
  }
}

function framed (kind: number, update: Uint8Array): Uint8Array {
  const encoder = encoding.createEncoder()
  encoding.writeVarUint(encoder, 0)
  encoding.writeVarUint(encoder, kind)
  encoding.writeVarUint8Array(encoder, update)
  return encoding.toUint8Array(encoder)
}

/** Serves the page's files and a state replica. `change` writes entries and notifies all clients. */
async function serve (t: Test): Promise<{
  url: string, change (entries: ReadonlyMap<string, unknown>): void
}> {
  const files = pageFiles()!
  const kv = new KvDoc()
  const parts = [...partsOf(bigState())]
  kv.write(new Map(parts.map(({ of, member, val }) => [entryKey(of, member), val])))
  const server = createServer((request, response) => {
    const name = request.url === '/' ? 'index.html' : request.url!.replace('/page/', '')
    const file = files.get(name)
    response.writeHead(file === undefined ? 404 : 200, { 'content-type': file?.type ?? 'text/plain' })
    response.end(file?.plain)
  })
  const sockets = new Set<WebSocket>()
  const wss = new WebSocketServer({ server })
  wss.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('message', (data: Buffer) => {
      const decoder = decoding.createDecoder(data)
      if (decoding.readVarUint(decoder) !== 0) return
      if (decoding.readVarUint(decoder) !== messageYjsSyncStep1) return
      socket.send(framed(messageYjsSyncStep2, kv.state(decoding.readVarUint8Array(decoder))))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.terminate()
    wss.close()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    change (entries) {
      const update = framed(messageYjsUpdate, kv.write(entries)!)
      for (const socket of sockets) socket.send(update)
    }
  }
}

t.test('200 nodes, 2,000 instances, 50 changes a second', { skip }, async (t) => {
  const { url, change } = await serve(t)
  const browser = await openBrowser(t)
  const { page, problems } = await openPage(t, browser, { url })
  t.equal(await page.locator('.topology .mark').count(), NODES)
  t.match(await page.getByRole('status').first().textContent(), `${NODES} nodes`)
  const rows = await page.getByRole('list', { name: 'Instances' }).getByRole('listitem').count()
  t.ok(rows < 200, `${rows} rows exist for ${INSTANCES} instances`)

  const counted = page.evaluate(`new Promise((resolve) => {
    const from = performance.now()
    let [frames, longest, last] = [0, 0, from]
    const next = (now) => {
      frames++
      longest = Math.max(longest, now - last)
      last = now
      if (now - from < ${SECONDS * 1000}) requestAnimationFrame(next)
      else resolve({ perSecond: frames / (now - from) * 1000, longestMs: longest })
    }
    requestAnimationFrame(next)
  })`) as Promise<{ perSecond: number, longestMs: number }>
  for (let i = 0; i < SECONDS * CHANGES_PER_SECOND; i++) {
    const states = [{ RunnerRunning: {} }, { RunnerReady: {} }]
    change(new Map<string, unknown>([
      [`runners/r${i % INSTANCES}`, states[i % 2]],
      [`nodeMemory/n${i % NODES}`, memory(2 ** 33 + i * 2 ** 24)]
    ]))
    await sleep(1000 / CHANGES_PER_SECOND)
  }
  const { perSecond, longestMs } = await counted
  figure(t, 'page of 200 nodes', inTime(-perSecond, -58), {
    framesPerSecond: Math.round(perSecond), longestFrameMs: Math.round(longestMs)
  })
  t.comment(`${Math.round(perSecond)} frames a second, the longest ${Math.round(longestMs)} ms`)

  // Waits until the last change is on the screen.
  const renamed = { friendlyName: 'renamed', nodeInstallId: 'install-7', apiUrl: null }
  change(new Map([['nodeIdentities/n7', renamed]]))
  await page.getByRole('link', { name: /^renamed,/ }).waitFor()
  // The topology ring shows a node's GPUs combined; the node's own page shows each of them.
  await page.locator('.topology').getByRole('link', { name: /^node 5,.*accelerator memory 50 %/ }).click()
  for (const used of ['6.0', '2.0']) await page.getByText(`${used} GiB of 8.0 GiB · busy 50 %`).waitFor()
  t.same(problems, [])
})
