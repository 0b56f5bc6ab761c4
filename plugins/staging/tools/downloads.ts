import { createToolReads, fact, nameOf, quoted, showBytes, showMs, withoutFullStop, type Evidence, type Fact,
  type Tool } from '../../../kernel/cli/index.js'
import { stagingsOf, type StateView, type Staging } from '../cli/cluster.js'
import type { DownloadStatus } from '../store/download.js'

const MOST = 20
const RANKS = { fail: 0, warn: 1, info: 2, ok: 3 } as const

/** Reports downloads into the store and transfers to nodes, failed and stopped ones first. */
export default {
  async run (ctx, { model }) {
    const look = createToolReads(ctx)
    const [stored, state] = await Promise.all([
      look.read<{ downloads: DownloadStatus[] }>('The downloads of the store', '/store/downloads',
        'store_not_configured'),
      look.read<StateView>('The transfers to nodes', '/state')
    ])
    const facts = [
      ...(stored?.downloads ?? []).flatMap(intoStore),
      ...state === null ? [] : stagingsOf(state).flatMap((one) => toNode(one, nameOf(state, one.nodeId)))
    ].filter(({ about }) => model === undefined || about.includes(model))
      .sort((a, b) => RANKS[a.level] - RANKS[b.level]).slice(0, MOST)
    const of = model === undefined ? 'any model' : quoted(model)
    const none = fact('info', 'no_downloads', `There is no download of ${of}.`,
      { about: model === undefined ? [] : [model], evidence: STORE })
    return { facts: facts.length > 0 || look.unknown.length > 0 ? facts : [none], unknown: look.unknown }
  }
} satisfies Tool<{ model?: string }>

const STORE: Evidence[] = [{ kind: 'path', path: '/store/downloads' }]

/** Complete downloads are models of the store, so they are left out. */
function intoStore ({ modelId, status, error, reason, ...moved }: DownloadStatus): Fact[] {
  const model = quoted(modelId)
  const far = farOf(moved)
  const told = (level: Fact['level'], code: string, text: string, remedy: string | null): Fact[] => {
    const why: Evidence[] = reason === null ? [] : [{ kind: 'error', reason }]
    return [fact(level, code, `The download of ${model} ${text}.`,
      { about: [model], evidence: [...STORE, ...why], remedy })]
  }
  const again = `Run \`svc downloads resume ${model}\`; downloaded bytes are kept.`
  switch (status) {
    case 'failed': return told('fail', 'download_failed', `failed: ${causeOf(error, reason)}`, again)
    case 'cancelled': return told('warn', 'download_cancelled', `was cancelled${far}`, again)
    case 'paused': return told('warn', 'download_paused', `is paused${far}`,
      `Resume it: \`svc downloads resume ${model}\`.`)
    case 'pending': return told('info', 'downloading', 'is queued', null)
    case 'downloading': return told('info', 'downloading', `is in progress${far}`, null)
    default: return []
  }
}

function toNode ({ modelId, nodeId, status, error, reason, ...moved }: Staging, node: string): Fact[] {
  const [model, name] = [quoted(modelId), quoted(node, 80)]
  const told = (level: Fact['level'], code: string, text: string, remedy: string | null): Fact[] =>
    [fact(level, code, `The copy of ${model} to ${name} ${text}.`,
      { about: [model, name], evidence: [{ kind: 'node', nodeId, name }], remedy })]
  if (status === 'complete') return []
  if (status === 'failed') {
    return told('fail', 'download_failed', `failed: ${causeOf(error, reason)}`,
      `Fix the cause, then run \`svc stage ${model} --node ${name}\`.`)
  }
  const far = farOf(moved)
  return told('info', 'downloading', status === 'pending' ? 'is queued' : `is in progress${far}`, null)
}

const causeOf = (error: string | null, reason: string | null): string =>
  withoutFullStop(error ?? reason ?? 'the node gave no reason', 300)

const farOf = ({ downloadedBytes = 0, totalBytes = 0, etaMs }: Partial<DownloadStatus>): string =>
  totalBytes <= 0 ? '' : `, ${showBytes(downloadedBytes)} of ${showBytes(totalBytes)} complete` +
    (etaMs == null ? '' : `, about ${showMs(etaMs)} to go`)
