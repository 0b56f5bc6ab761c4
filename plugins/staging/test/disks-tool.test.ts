import t from 'tap'
import { lacks, refusal, toolContext } from '../../../kernel/testing/index.js'
import { recorded } from '../../../test/recorded.js'
import disks from '../tools/disks.js'

const NOW = '2026-11-23T20:58:00.000Z'
const GIB = 1024 ** 3
const noStore = refusal(503, 'store_not_configured', 'No node of this cluster has a model store.')

t.test('room everywhere, and what this node keeps', async (t) => {
  const answers = { ...recorded('request-failed'), '/store/health': noStore }
  const { facts, unknown } = await disks.run(toolContext(answers, NOW))
  t.same(unknown, [], 'a cluster without a store is no fault')
  t.match(facts, [
    {
      level: 'ok', code: 'disk_room', remedy: null,
      text: /^The disk of node\d has enough space: .* free of 252 GiB\.$/
    },
    { level: 'ok' }, { level: 'ok' },
    { level: 'info', code: 'store_not_configured', remedy: /`svc config set model_store\.store_path / },
    { level: 'info', code: 'staged', text: /^node2 has 0 B of staged models, 0 B of unfinished transfers/ }
  ])
})

t.test('a full disk and a store that is nearly full come first, with what makes room', async (t) => {
  const { '/state': state, ...rest } = recorded('request-failed') as unknown as
    Record<string, { masterNodeId: string, nodeDisk: object }>
  const full = { total: { inBytes: 100 * GIB }, available: { inBytes: 0 } }
  const answers = {
    ...rest,
    '/state': { ...state, nodeDisk: { ...state!.nodeDisk, [state!.masterNodeId]: full } },
    '/store/health': { freeBytes: 3 * GIB, totalBytes: 100 * GIB }
  }
  const { facts } = await disks.run(toolContext(answers, NOW))
  t.match(facts.slice(0, 2), [
    {
      level: 'fail', code: 'disk_full', about: ['vm'], text: 'The disk of vm is full: 0 B free of 100 GiB.',
      remedy: /^Free disk space on vm: `svc purge`/
    },
    {
      level: 'warn', code: 'disk_low', about: ['store'], text: /^The disk of the store is nearly full/,
      remedy: /svc rm/
    }
  ])
})

t.test('what cannot be seen', async (t) => {
  const gone = refusal(503, 'store_unreachable', 'The store host cannot be reached.')
  const answers = { '/state': lacks('read'), '/store/health': gone, '/store/storage': lacks('read') }
  const { facts, unknown } = await disks.run(toolContext(answers, NOW))
  t.match(facts, [{ level: 'fail', code: 'store_unreachable', text: 'The store host cannot be reached.' }])
  t.equal(facts.length, 1)
  t.same(unknown, [
    'The disks of the nodes could not be read: that needs the authority read.',
    'The disk use of this node could not be read: that needs the authority read.'
  ])
})
