import {
  fact, isVerbError, judgeDisk, quoted, createToolReads, showBytes, unreadableSentence
} from '../../../kernel/cli/index.js'
import type { ClusterState, Evidence, Fact, Tool, VerbError } from '../../../kernel/cli/index.js'
import { storeRemedy } from '../service.js'
import type { Answers } from '../routes.js'

interface State extends ClusterState {
  nodeDisk?: Record<string, { total: { inBytes: number }, available: { inBytes: number } } | null>
}

const RANKS = { fail: 0, warn: 1, ok: 2, info: 3 } as const
const COPIES_MOST = 10

export default {
  async run (ctx) {
    const look = createToolReads(ctx)
    const [state, store, storage] = await Promise.all([
      look.read<State>('The disks of the nodes', '/state'),
      ctx.look<Answers['health']>('/store/health'),
      look.read<Answers['storage']>('The disk use of this node', '/store/storage')
    ])
    return {
      facts: [
        ...state === null ? [] : disksOf(state),
        ...isVerbError(store) ? noStore(store, look.unknown) : [storeFact(store)],
        ...storage === null ? [] : [kept(storage, state)]
      ].sort((a, b) => RANKS[a.level] - RANKS[b.level]),
      unknown: look.unknown
    }
  }
} satisfies Tool

const nameIn = (state: State | null, nodeId: string): string =>
  quoted(state?.nodeIdentities[nodeId]?.friendlyName ?? nodeId, 80)

function disksOf (state: State): Fact[] {
  return Object.entries(state.nodeDisk ?? {}).flatMap(([nodeId, disk]) => {
    if (disk == null) return []
    const name = nameIn(state, nodeId)
    const remedy = `Free disk space on ${name}: \`svc purge\` removes unused staged copies; check that ` +
      'machine for other large files.'
    return [roomFact(`The disk of ${name}`, disk.available.inBytes, disk.total.inBytes, remedy,
      { about: [name], evidence: [{ kind: 'node', nodeId, name }] })]
  })
}

const storeFact = ({ freeBytes, totalBytes }: Answers['health']): Fact => roomFact('The disk of the store',
  freeBytes, totalBytes, 'Free disk space: `svc ls` lists the models, `svc rm MODEL` removes one.',
  { about: ['store'], evidence: [{ kind: 'path', path: '/store/health' }] })

function noStore (error: VerbError, unknown: string[]): Fact[] {
  const more = { about: ['store'], evidence: [{ kind: 'path', path: '/store/health' }] } as const
  switch (error.api?.reason) {
    case 'store_unreachable': return [fact('fail', 'store_unreachable', quoted(error.api.message, 300),
      { ...more, remedy: storeRemedy('store_unreachable') })]
    case 'store_not_configured': return [fact('info', 'store_not_configured',
      'No node of this cluster has a store.', { ...more, remedy: storeRemedy('store_not_configured') })]
    default:
      unknown.push(unreadableSentence('The disk space of the store', error))
      return []
  }
}

function roomFact (
  what: string, free: number, total: number, remedy: string, more: { about: string[], evidence: Evidence[] }
): Fact {
  const { result, message, code } = judgeDisk(free, total, { name: what, remedy })
  const said = { fail: 'is full', warn: 'is nearly full', ok: 'has enough space' }[result]
  return fact(result, code ?? 'disk_room', `${what} ${said}: ${message}.`,
    { ...more, remedy: result === 'ok' ? null : remedy })
}

function kept (storage: Answers['storage'], state: State | null): Fact {
  const { nodeId, stagedModels, stagedTotalBytes, partialBytes, eventLogBytes } = storage
  const name = nameIn(state, nodeId)
  const copies = stagedModels.toSorted((a, b) => b.sizeBytes - a.sizeBytes).slice(0, COPIES_MOST)
    .map(({ modelId, sizeBytes, inUse }) =>
      `${quoted(modelId)} ${showBytes(sizeBytes)}${inUse ? ', in use' : ''}`)
  return fact('info', 'staged', `${name} has ${showBytes(stagedTotalBytes)} of staged models` +
    `${copies.length === 0 ? '' : ` (${copies.join('; ')})`}, ${showBytes(partialBytes)} of unfinished ` +
    `transfers and ${showBytes(eventLogBytes)} of events.`, {
    about: [name, ...stagedModels.slice(0, COPIES_MOST).map(({ modelId }) => quoted(modelId))],
    evidence: [{ kind: 'path', path: '/store/storage' }]
  })
}
