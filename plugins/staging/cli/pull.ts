import { retryUntil, exitFor, storePath } from './api.js'
import { createMeter, showReadings } from './meter.js'
import {
  canAsk, confirm, engineHelp, isVerbError, modelInPath, plain, programIn, realPace, showBytes, stallDetector,
  type EngineHelp, type WaitClock, type Verb, type VerbContext
} from '../../../kernel/cli/index.js'
import type { ModelCard } from '../../../kernel/index.js'
import { wantedFrom, type NamedModel, type Wanted } from './source.js'
import type { Answers } from '../routes.js'
import type { DownloadStatus } from '../store/download.js'

const POLL_MS = 500

export function createPull (pace: WaitClock): Verb {
  return {
    async run (ctx, [word], options) {
      const { modelId, body } = wantedFrom(ctx, word!, options)
      if (!ctx.out.json) await showPlan(ctx, { modelId, body })
      const first = await begin(ctx, { modelId, body })
      if (options['background'] === true) return inBackground(ctx, first)
      try {
        await finish(ctx, await follow(ctx, pace, first), options['yes'] === true)
      } catch (error) {
        if (!ctx.signal.aborted) throw error
        ctx.err.line(CONTINUES)
        return 130
      }
    }
  }
}

export default createPull(realPace)

/** Pulls a model into the store for another verb. Throws VerbError unless the download completes. */
async function bringIn (ctx: VerbContext, pace: WaitClock, wanted: Wanted): Promise<void> {
  try {
    checkEnd(ctx, await follow(ctx, pace, await begin(ctx, wanted)))
  } catch (error) {
    if (!ctx.signal.aborted) throw error
    ctx.err.line(CONTINUES)
    throw ctx.fail(130, 'interrupted')
  }
}

/** Reasons for a refused plan that would also make the download fail. */
const FINAL: ReadonlySet<string> = new Set([
  'hub_not_found', 'hub_gated', 'hub_unusable', 'import_refused', 'missing_grant', 'invalid_request'
])

/** Only warns if the model is too large for memory, since a node may join. Throws the refusals in FINAL. */
async function showPlan (ctx: VerbContext, { modelId, body }: Wanted): Promise<void> {
  if (body.source?.startsWith('node:') === true) return
  try {
    const plan = await planOf(ctx, { modelId, ...body })
    tellPlan(ctx, plan, `${modelId}:`)
    if ((plan.memory?.problem ?? null) === null) return
    const smaller = smallerOf(plan, 'pull')
    ctx.err.line(plain(`warning: ${plan.memory!.problem!}`))
    if (smaller !== undefined) ctx.err.line(`  smaller variant: ${plain(smaller)}`)
  } catch (error) {
    if (!isVerbError(error) || FINAL.has(error.api?.reason ?? '')) throw error
    // The cluster may have the model even if the hub is unreachable.
    if (error.api?.reason === 'hub_unavailable' && await seenCard(ctx, modelId) === undefined) throw error
  }
}

const CONTINUES = 'the download continues; svc downloads shows it'

/** Starts a download; informs the user if this makes the node the store. */
async function begin (ctx: VerbContext, { modelId, body }: Wanted): Promise<DownloadStatus> {
  const { storeMade, ...first } = await ctx.client.json<DownloadStatus & { storeMade?: string }>(
    `${storePath(modelId)}/download`, { method: 'POST', body })
  if (storeMade !== undefined) {
    ctx.err.line(`the cluster had no store: this node is now the store host, in ${plain(storeMade)}`)
  }
  return first
}

const ends = new Set<string>(['complete', 'failed', 'paused', 'cancelled', 'not_found'])
const over = ({ status }: DownloadStatus): boolean => ends.has(status)

function inBackground ({ out, err }: VerbContext, first: DownloadStatus): void {
  if (out.json) return out.value(first)
  out.line(`${first.modelId}: ${first.status}`)
  if (!over(first)) err.line('the download continues in the background; svc downloads shows it')
}

/** Shows progress until the end. Throws VerbError if the node stays unreachable, 130 after Ctrl-C. */
async function follow (ctx: VerbContext, pace: WaitClock, first: DownloadStatus): Promise<DownloadStatus> {
  const meter = createMeter(first.modelId)
  const isStill = stallDetector(pace)
  let status = first
  let shown = ''
  for (;;) {
    const text = JSON.stringify(status)
    if (ctx.out.json && text !== shown) ctx.out.value(status)
    shown = text
    showReadings(ctx, [meter(status)])
    if (over(status)) break
    if (isStill(text)) throw ctx.fail(4, `no progress for 6 minutes; ${CONTINUES}`)
    await pace.pause(POLL_MS, ctx.signal)
    status = await retryUntil(ctx, `${storePath(first.modelId)}/download/status`)
  }
  ctx.err.end()
  return status
}

async function finish (ctx: VerbContext, status: DownloadStatus, yes: boolean): Promise<void> {
  const { modelId, totalBytes } = status
  checkEnd(ctx, status)
  if (ctx.out.json) return
  ctx.out.line(`${modelId} is in the store${totalBytes === 0 ? '' : `: ${showBytes(totalBytes)}`}`)
  const card = await seenCard(ctx, modelId)
  const help = card === undefined ? {} : await engineHelp(ctx, card.engine)
  const hint = card === undefined ? undefined : help.hint?.(card)
  if (hint !== undefined) ctx.err.line(plain(hint))
  const untold = card?.support['chat_template']
  if (untold !== undefined) ctx.err.line(plain(`chat template: ${untold}`))
  const lacks = card !== undefined && await lacksEngine(ctx, help, card)
  const ready = !lacks || await help.offer?.(ctx, yes) === true
  if (!ready) ctx.err.line('it needs llama.cpp, which no node has: run `svc engine add llama.cpp`')
  ctx.err.line(`next: ${programIn(ctx.io.cwd)} place ${modelId}`)
}

type SeenCard = Pick<ModelCard, 'engine' | 'family' | 'languages' | 'backends' | 'files' | 'support'>

async function seenCard (ctx: VerbContext, modelId: string): Promise<SeenCard | undefined> {
  return (await asked(ctx.client.json<{ card: SeenCard }>(`/models/${modelInPath(modelId)}/card`)))?.card
}

/** True if no node has the program that the model needs; false if the cluster state is unavailable. */
async function lacksEngine ({ client }: VerbContext, help: EngineHelp, card: SeenCard): Promise<boolean> {
  if (help.lacksProgram === undefined) return false
  const state = await asked(client.json<object>('/state'))
  return state !== undefined && help.lacksProgram(card, state)
}

/** Resolves with undefined if the node refuses or is unreachable. */
async function asked<T> (answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if (isVerbError(error)) return undefined
    throw error
  }
}

function checkEnd (ctx: VerbContext, status: DownloadStatus): void {
  const { modelId } = status
  const why = plain(status.error ?? status.reason ?? 'the node gave no reason')
  switch (status.status) {
    case 'failed':
      throw ctx.fail(exitFor(status.reason), `${modelId} could not be pulled: ${why}` +
        (status.downloadedBytes > 0
          ? '\n  the downloaded bytes are kept; run the same command to resume' : ''))
    case 'paused':
    case 'cancelled': {
      const how = status.status === 'paused' ? 'is paused' : 'was cancelled'
      throw ctx.fail(1, `the download of ${modelId} ${how}; \`svc downloads resume ${modelId}\` resumes it`)
    }
    case 'not_found':
      throw ctx.fail(3, `the store has no download of ${modelId}; \`svc downloads\` lists its downloads`)
  }
}

/** Milliseconds without an answer of the hub before the command says what it waits for. */
const SILENT_MS = 2000

/** The plan of a download. The node limits the number of its requests to the hub. */
async function planOf (
  ctx: VerbContext, { modelId, allow = [], ...named }: NamedModel
): Promise<Answers['plan']> {
  const words = [...Object.entries(named), ...allow.map((pattern): [string, string] => ['allow', pattern])]
  const answered = new AbortController()
  void realPace.pause(SILENT_MS, answered.signal).then(() => {
    if (answered.signal.aborted || ctx.out.json) return
    ctx.err.line(`waiting for the hub to list the files of ${modelId}`)
  })
  try {
    return await ctx.client.json(`${storePath(modelId)}/download/plan?${new URLSearchParams(words)}`)
  } finally { answered.abort() }
}

function tellPlan (ctx: VerbContext, plan: Answers['plan'], begin: string): void {
  for (const line of linesOf(plan, begin)) ctx.err.line(plain(line))
}

function linesOf (plan: Answers['plan'], begin: string): string[] {
  const { hub, files, totalBytes, weightsBytes, variant, engine, disk, memory } = plan
  const kind = [engine === null ? null : engine.toUpperCase(), variant].filter((word) => word !== null)
  return [
    `${begin} from ${hub}: ${files} ${files === 1 ? 'file' : 'files'}, ${showBytes(totalBytes)}` +
    (kind.length === 0 ? '' : ` (${kind.join(' ')})`),
    `store disk on ${disk.node}: ${showBytes(disk.roomBytes)} available`,
    memory === null
      ? `memory: the weights need at least ${showBytes(weightsBytes)}`
      : `memory: the model needs at least ${showBytes(memory.neededBytes)}` + (memory.problem === null
        ? `; fits on ${memory.nodes.map(givenBy).join(', ')}` : ', more than the cluster has free')
  ]
}

const givenBy = ({ name, usableBytes }: NonNullable<Answers['plan']['memory']>['nodes'][number]): string =>
  `${name} (${showBytes(usableBytes)} available)`

/** The command for the largest variant that fits on disk and in memory; undefined if none does. */
function smallerOf (plan: Answers['plan'], verb: 'run' | 'pull'): string | undefined {
  const { modelId, weightsBytes, variants, totalBytes, disk } = plan
  const rest = totalBytes - weightsBytes
  const smaller = variants.findLast(({ bytes, fits }) =>
    bytes < weightsBytes && fits !== false && bytes + rest <= disk.roomBytes)
  return smaller && `svc ${verb} ${modelId}:${smaller.name} (${showBytes(smaller.bytes)})`
}

/** Pulls a missing model for another verb: shows the plan and asks unless `yes`. Throws VerbError. */
export async function fetchModel (
  ctx: VerbContext, pace: WaitClock, { modelId, ...named }: NamedModel, yes: boolean
): Promise<void> {
  const plan = await planOf(ctx, { modelId, ...named })
  tellPlan(ctx, plan, `${modelId} is not in the cluster;`)
  refuseTooLarge(ctx, plan)
  await bringEngine(ctx, plan, yes)
  const copies = named.source?.startsWith('file:') === true
  if (!yes && !copies && canAsk(ctx) && !await confirm(ctx, `Download ${showBytes(plan.totalBytes)}?`)) {
    throw ctx.fail(1, 'nothing was downloaded')
  }
  await bringIn(ctx, pace, { modelId, body: named })
}

/** Offers to install the required program if no node has it; throws unless it is installed. */
async function bringEngine (
  ctx: VerbContext, { modelId, memory }: Answers['plan'], yes: boolean
): Promise<void> {
  const missing = memory?.engineMissing ?? null
  if (missing === null || await (await engineHelp(ctx, missing)).offer?.(ctx, yes) === true) return
  throw ctx.fail(1, `${modelId} needs llama.cpp, but no node has llama-server\n` +
    '  run `svc engine add llama.cpp` on each node that should run such models')
}

/** If the model is too large, throws VerbError (6) with the sizes and the largest variant that fits. */
function refuseTooLarge (ctx: VerbContext, plan: Answers['plan']): void {
  const { modelId, disk, memory } = plan
  if (disk.problem === null && (memory?.problem ?? null) === null) return
  const smaller = smallerOf(plan, 'run')
  throw ctx.fail(6, [
    disk.problem === null
      ? `${modelId} does not fit in memory: ${plain(memory!.problem!)}`
      : `${modelId} does not fit on the disk of ${disk.node}: ${plain(disk.problem)}`,
    smaller === undefined
      ? '  free memory or disk space: `svc ps` lists loaded models, `svc rm` and `svc purge` free disk space'
      : `  smaller variant: ${smaller}`
  ].join('\n'))
}
