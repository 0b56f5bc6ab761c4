import t from 'tap'
import { stagingsOf, type StateView } from '../cli/cluster.js'
import { download, nodeOf, sendError, sendJson, stateOf, type Answers } from './verb-kit.js'
import type { DownloadStatus } from '../store/download.js'

const state = stateOf({
  n2: [
    { DownloadOngoing: { nodeId: 'n2', modelId: 'acme/y', attemptId: 'a', downloadProgress: {
      total: 4096, downloaded: 1024, speed: 1024, etaMs: 90_000 } } },
    { DownloadCompleted: { nodeId: 'n2', modelId: 'acme/there', attemptId: 'b', total: 1 } }
  ],
  n9: [{ DownloadFailed: { nodeId: 'n9', modelId: 'acme/z', attemptId: 'c', errorMessage: 'disk\nfull' } }]
})
const downloads = [
  download({ status: 'downloading', downloadedBytes: 500, bytesPerSecond: 10 }),
  download({ modelId: 'acme/p', status: 'paused', downloadedBytes: 10, bytesPerSecond: 10 }),
  download({ modelId: 'acme/old', status: 'complete', totalBytes: 0, downloadedBytes: 0, progress: 1 })
]
const listing: Answers = {
  'GET /state': (response) => { sendJson(response, state) },
  'GET /store/downloads': (response) => { sendJson(response, { downloads }) }
}

t.test('svc downloads', async (t) => {
  const node = await nodeOf(t, listing)
  t.equal((await node.run(['downloads'])).out,
    'MODEL     STATE              PROGRESS  SIZE     RATE       ETA    ERROR\n' +
    'acme/x    downloading        50 %      1000 B   10 B/s     50s    -\n' +
    'acme/p    paused             1 %       1000 B   -          -      -\n' +
    'acme/old  complete           100 %     -        -          -      -\n' +
    'acme/y    downloading@node2  25 %      4.0 KiB  1.0 KiB/s  1m30s  -\n' +
    'acme/z    failed@n9          -         -        -          -      disk full\n')
  const shown = JSON.parse((await node.run(['downloads', '--json'])).out) as { downloads: object[] }
  t.equal(shown.downloads.length, 5)
  t.match(shown.downloads[0], { ...downloads[0], kind: 'store', nodeId: null })
  t.match(shown.downloads[3], { kind: 'staging', modelId: 'acme/y', nodeId: 'n2', nodeName: 'node2',
    status: 'downloading', progress: 0.25, downloadedBytes: 1024, totalBytes: 4096 })
})

t.test('svc downloads without a store, and without any', async (t) => {
  const noStore: Answers = { 'GET /store/downloads': (response) => {
    sendError(response, 503, 'store_not_configured')
  } }
  t.match(await (await nodeOf(t, { ...listing, ...noStore })).run(['downloads']),
    { status: 0, out: /^MODEL.*\nacme\/y .*\nacme\/z .*\n$/ })
  const idle = await nodeOf(t, { ...noStore, 'GET /state': (response) => { sendJson(response, stateOf()) } })
  t.match(await idle.run(['downloads']), { status: 0, out: /^$/, err: /`svc pull MODEL` starts one/ })
  t.same(JSON.parse((await idle.run(['downloads', '--json'])).out), { downloads: [] })
  const busy = await nodeOf(t, { ...listing, 'GET /store/downloads': (response) => {
    sendError(response, 503, 'not_ready')
  } })
  t.equal((await busy.run(['downloads'])).status, 4)
})

t.test('svc downloads pause, resume and cancel', async (t) => {
  let status: DownloadStatus['status'] = 'paused'
  const path = '/store/models/acme/x/download'
  const node = await nodeOf(t, {
    [`POST ${path}/pause`]: (response) => { sendJson(response, download({ status: 'paused' })) },
    [`POST ${path}`]: (response) => { sendJson(response, download({ status: 'pending' })) },
    [`DELETE ${path}`]: (response) => { sendJson(response, download({ status: 'cancelled' })) },
    [`GET ${path}/status`]: (response) => { sendJson(response, download({ status })) }
  })
  const last = (): unknown[] => [node.requests().at(-1), node.asked.at(-1)!.body]
  t.match(await node.run(['downloads', 'pause', 'acme/x']), { status: 0, out: 'acme/x: paused\n' })
  t.same(last(), [`POST ${path}/pause`, {}])
  t.match(await node.run(['downloads', 'cancel', 'acme/x']), { status: 0, out: 'acme/x: cancelled\n' })
  t.same(last(), [`DELETE ${path}`, undefined])
  for (status of ['paused', 'failed', 'cancelled'] as const) {
    t.match(await node.run(['downloads', 'resume', 'acme/x']), { status: 0, out: 'acme/x: pending\n' })
    t.same(last(), [`POST ${path}`, {}], status)
  }
  for (status of ['complete', 'downloading', 'pending'] as const) {
    t.match(await node.run(['downloads', 'resume', 'acme/x']), { status: 0, out: `acme/x: ${status}\n` })
    t.same(last(), [`GET ${path}/status`, undefined], 'it needs none')
  }
  status = 'not_found'
  t.match(await node.run(['downloads', 'resume', 'acme/x']),
    { status: 3, err: /`svc pull acme\/x` starts one/ })
  t.same(JSON.parse((await node.run(['downloads', 'cancel', 'acme/x', '--json'])).out),
    download({ status: 'cancelled' }))
  const before = node.asked.length
  for (const words of [['stop', 'acme/x'], ['pause'], ['pause', 'acme'], ['cancel', '../x']]) {
    t.equal((await node.run(['downloads', ...words])).status, 2, words.join(' '))
  }
  t.equal(node.asked.length, before)
})

t.test('transfers in the state', async (t) => {
  const pending = { DownloadPending: { modelId: 'acme/x', attemptId: 'a' } }
  const view = stateOf({ n1: [{ DownloadSoon: {} }, pending] })
  t.match(stagingsOf(view as StateView),
    [{ nodeId: 'n1', modelId: 'acme/x', status: 'pending', totalBytes: 0, downloadedBytes: 0,
      bytesPerSecond: 0, etaMs: null }])
  t.same(stagingsOf({ localNodeId: 'n1', nodeIdentities: {} }), [])
})
