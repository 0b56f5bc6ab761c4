import { isVerbError, nameOf, readModelId, plain, showBytes } from '../../../kernel/cli/index.js'
import { storePath } from './api.js'
import { stagingsOf, type StateView } from './cluster.js'
import { etaOf, percentOf, showSpan } from './meter.js'
import type { DownloadStatus } from '../store/download.js'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'

interface Row extends Omit<DownloadStatus, 'source' | 'revision' | 'startedAt'> {
  kind: 'store' | 'staging', nodeId: string | null, nodeName: string | null
}

const actions = ['pause', 'resume', 'cancel'] as const

export default {
  async run (ctx, [action, model]) {
    if (action === undefined) return await list(ctx)
    const known = actions.find((one) => one === action)
    if (known === undefined || model === undefined) {
      throw ctx.fail(2, 'expected `svc downloads`, or `svc downloads pause|resume|cancel MODEL`')
    }
    const modelId = readModelId(ctx, model)
    const status = known === 'resume' ? await resume(ctx, modelId) : await end(ctx, modelId, known)
    if (ctx.out.json) ctx.out.value(status)
    else ctx.out.line(`${modelId}: ${status.status}`)
  }
} satisfies Verb

async function end (ctx: VerbContext, modelId: string, action: 'pause' | 'cancel'): Promise<DownloadStatus> {
  const path = `${storePath(modelId)}/download`
  return action === 'pause'
    ? await ctx.client.json(`${path}/pause`, { method: 'POST', body: {} })
    : await ctx.client.json(path, { method: 'DELETE' })
}

/** Resumes a stopped download only: a mistyped name must not start a new one. */
async function resume (ctx: VerbContext, modelId: string): Promise<DownloadStatus> {
  const path = `${storePath(modelId)}/download`
  const status = await ctx.client.json<DownloadStatus>(`${path}/status`)
  if (status.status === 'not_found') {
    throw ctx.fail(3, `there is no download of ${modelId}; \`svc pull ${modelId}\` starts one`)
  }
  const stands = status.status === 'paused' || status.status === 'failed' || status.status === 'cancelled'
  return stands ? await ctx.client.json(path, { method: 'POST', body: {} }) : status
}

async function list (ctx: VerbContext): Promise<void> {
  const [stored, state] = await Promise.all([readStored(ctx), ctx.client.json<StateView>('/state')])
  const downloads = [...stored, ...underWay(state)]
  if (ctx.out.json) ctx.out.value({ downloads })
  else if (downloads.length === 0) ctx.err.line('no downloads; `svc pull MODEL` starts one')
  else {
    ctx.out.table(['MODEL', 'STATE', 'PROGRESS', 'SIZE', 'RATE', 'ETA', 'ERROR'], downloads.map((row) =>
      [row.modelId, stateOf(row), ...cells(row), plain(row.error ?? '-')]))
  }
}

/** Failures of the download list despite which `svc downloads` still lists the transfers to nodes. */
const NO_STORE: ReadonlySet<string> = new Set(['store_not_configured', 'store_unreachable'])

async function readStored ({ client }: VerbContext): Promise<Row[]> {
  try {
    const { downloads } = await client.json<{ downloads: DownloadStatus[] }>('/store/downloads')
    return downloads.map((status) => ({ ...status, kind: 'store', nodeId: null, nodeName: null }))
  } catch (error) {
    if (isVerbError(error) && NO_STORE.has(error.api?.reason ?? '')) return []
    throw error
  }
}

/** Transfers to nodes that are in progress or failed; `svc ls` lists the completed copies. */
function underWay (state: StateView): Row[] {
  return stagingsOf(state).filter(({ status }) => status !== 'complete')
    .map(({ attemptId: _attemptId, ...one }) => ({
      kind: 'staging', ...one, nodeName: nameOf(state, one.nodeId),
      progress: one.totalBytes > 0 ? Math.min(1, one.downloadedBytes / one.totalBytes) : 0
    }))
}

const stateOf = ({ kind, status, nodeName }: Row): string =>
  kind === 'store' ? status : `${status}@${nodeName ?? '-'}`

function cells (row: Row): string[] {
  const percent = row.status === 'complete' ? 100 : percentOf(row)
  const moving = row.status === 'downloading'
  const eta = moving ? etaOf(row) : undefined
  return [
    percent === undefined ? '-' : `${percent} %`,
    row.totalBytes > 0 ? showBytes(row.totalBytes) : '-',
    moving && row.bytesPerSecond > 0 ? `${showBytes(row.bytesPerSecond)}/s` : '-',
    eta === undefined ? '-' : showSpan(eta)
  ]
}
