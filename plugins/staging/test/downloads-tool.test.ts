import t from 'tap'
import { lacks, refusal, toolContext } from '../../../kernel/testing/index.js'
import downloads from '../tools/downloads.js'

const NOW = '2026-11-23T21:00:00.000Z'
const download = (modelId: string, status: string, more: object = {}): object => ({
  modelId, status, progress: 0, error: null, reason: null, downloadedBytes: 0, totalBytes: 0,
  bytesPerSecond: 0, etaMs: null, source: 'hub', revision: null, startedAt: null, ...more
})
const GIB = 1024 ** 3
const stored = {
  downloads: [
    download('acme/whole', 'complete'), download('acme/going', 'downloading'),
    download('acme/held', 'paused', { downloadedBytes: GIB, totalBytes: 4 * GIB }),
    download('acme/gated', 'failed', { error: 'The hub answered 403: it is gated.\n', reason: 'gated' })
  ]
}
const state = {
  localNodeId: 'n', nodeIdentities: { n: { friendlyName: 'attic' } },
  downloads: { n: [{ DownloadFailed: { modelId: 'acme/whole', attemptId: 'a', errorMessage: 'disk full' } }] }
}
const context = (store: unknown = stored, now: unknown = state): ReturnType<typeof toolContext> =>
  toolContext({ '/store/downloads': store, '/state': now }, NOW)

t.test('what failed or stands still comes first, with what goes on with it', async (t) => {
  const { facts, unknown } = await downloads.run(context(), {})
  t.same(unknown, [])
  t.match(facts, [
    {
      level: 'fail', code: 'download_failed', about: ['acme/gated'],
      text: 'The download of acme/gated failed: The hub answered 403: it is gated.',
      evidence: [{ kind: 'path' }, { kind: 'error', reason: 'gated' }],
      remedy: /`svc downloads resume acme\/gated`/
    },
    {
      level: 'fail', about: ['acme/whole', 'attic'],
      text: 'The copy of acme/whole to attic failed: disk full.',
      remedy: /`svc stage acme\/whole --node attic`/
    },
    {
      level: 'warn', code: 'download_paused', text: /is paused, 1.0 GiB of 4.0 GiB complete\.$/,
      remedy: /`svc downloads resume acme\/held`/
    },
    { level: 'info', code: 'downloading', remedy: null }
  ])
  t.equal(facts.length, 4, 'what is complete is a model and no download')
})

t.test('of one model, and of one that nobody downloads', async (t) => {
  t.same((await downloads.run(context(), { model: 'acme/held' })).facts.length, 1)
  t.match((await downloads.run(context(), { model: 'acme/new' })).facts,
    [{ level: 'info', code: 'no_downloads', text: 'There is no download of acme/new.' }])
})

t.test('without a store, and without the right to see it', async (t) => {
  const none = refusal(503, 'store_not_configured', 'No node of this cluster has a model store.')
  t.match(await downloads.run(context(none), { model: 'acme/new' }),
    { facts: [{ code: 'no_downloads' }], unknown: [] }, 'that is no fault of a download')
  t.same((await downloads.run(context(lacks('read')), { model: 'acme/new' })).unknown,
    ['The downloads of the store could not be read: that needs the authority read.'])
})
