import { retryUntil, exitFor, storePath } from './api.js'
import { createMeter, showReadings } from './meter.js'
import {
  canAsk, confirm, engineHelp, isVerbError, modelInPath, plain, programIn, realPace, showBytes, stallDetector
} from '../../../kernel/cli/index.js'
import type { ModelCard } from '../../../kernel/index.js'
import { wantedFrom } from './source.js'
import type { NamedModel, Wanted } from './source.js'
import type { Answers } from '../routes.js'
import type { DownloadStatus } from '../store/download.js'
import type { EngineHelp, WaitClock, Verb, VerbContext } from '../../../kernel/cli/index.js'

const POLL_MS = 500

export function createPull (pace: WaitClock): Verb {
  return {
    async run (ctx, [word], options) {
      const { modelId, body } = wantedFrom(ctx, word!, options)
      if (!ctx.out.json) await showPlan(ctx, { modelId, body })
      const first = await begin(ctx, { modelId, body })
      if (options['background'] === true) {
        inBackground(ctx, first)
        return
      }
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

/** Brings a model into the store for another verb. Throws VerbError for every end but a complete one. */
async function bringIn (ctx: VerbContext, pace: WaitClock, wanted: Wanted): Promise<void> {
  try {
    checkEnd(ctx, await follow(ctx, pace, await begin(ctx, wanted)))
  } catch (error) {
    if (!ctx.signal.aborted) throw error
    ctx.err.line(CONTINUES)
    throw ctx.fail(130, 'interrupted')
  }
}

/** Refusals of a plan that the download would end with. */
const FINAL: ReadonlySet<string> = new Set([
  'hub_not_found', 'hub_gated', 'hub_unusable', 'import_refused', 'missing_grant', 'invalid_request'
])

/**
 * Says before a byte moves what is fetched, and whether it fits. What is too large for memory now is fetched
 * all the same, for a node may come that has it; the disk is the store's to judge. Throws what would not
 * come.
 */
async function showPlan (ctx: VerbContext, { modelId, body }: Wanted): Promise<void> {
  if (/^(file|node):/.test(body.source ?? '')) return
  try {
    const plan = await ctx.client.json<Answers['plan']>(planPath(modelId, body))
    tellPlan(ctx, plan, `${modelId}:`)
    if ((plan.memory?.problem ?? null) === null) return
    const smaller = smallerOf(plan, 'pull')
    ctx.err.line(plain(`warning: ${plan.memory!.problem!}`))
    if (smaller !== undefined) ctx.err.line(`  a smaller one: ${plain(smaller)}`)
  } catch (error) {
    // The store may have the model where the hub cannot be asked.
    if (!isVerbError(error) || FINAL.has(error.api?.reason ?? '')) throw error
  }
}

const CONTINUES = 'the download continues; svc downloads shows it'

/** Starts a download; where the cluster had no store, the node that is asked is it now, and that is told. */
async function begin (ctx: VerbContext, { modelId, body }: Wanted): Promise<DownloadStatus> {
  const { storeMade, ...first } = await ctx.client.json<DownloadStatus & { storeMade?: string }>(
    `${storePath(modelId)}/download`, { method: 'POST', body })
  if (storeMade !== undefined) {
    ctx.err.line(`there was no store: this node keeps it from now on, in ${plain(storeMade)}`)
  }
  return first
}

const ends = new Set<string>(['complete', 'failed', 'paused', 'cancelled', 'not_found'])
const over = ({ status }: DownloadStatus): boolean => ends.has(status)

function inBackground ({ out, err }: VerbContext, first: DownloadStatus): void {
  if (out.json) {
    out.value(first)
    return
  }
  out.line(`${first.modelId}: ${first.status}`)
  if (!over(first)) err.line('the download goes on by itself; svc downloads shows it')
}

/** Shows every change until it is over. Throws VerbError when the node stays away, 130 at Ctrl-C. */
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
    if (isStill(text)) throw ctx.fail(4, `nothing has come for 6 minutes; ${CONTINUES}`)
    await pace.pause(POLL_MS, ctx.signal)
    status = await retryUntil(ctx, `${storePath(first.modelId)}/download/status`)
  }
  ctx.err.end()
  return status
}

/** Says what came of it and what to do next, and offers a missing engine. Throws as `checkEnd`. */
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
  if (!ready) ctx.err.line('it runs on llama.cpp, which no node has: `svc engine add llama.cpp` brings it')
  ctx.err.line(`next: ${programIn(ctx.io.cwd)} place ${modelId}`)
}

type SeenCard = Pick<ModelCard, 'engine' | 'family' | 'languages' | 'backends' | 'files' | 'support'>

async function seenCard (ctx: VerbContext, modelId: string): Promise<SeenCard | undefined> {
  return (await asked(ctx.client.json<{ card: SeenCard }>(`/models/${modelInPath(modelId)}/card`)))?.card
}

/** Whether no node has the program that the model runs on; false where that cannot be asked. */
async function lacksEngine ({ client }: VerbContext, help: EngineHelp, card: SeenCard): Promise<boolean> {
  if (help.lacksProgram === undefined) return false
  const state = await asked(client.json<object>('/state'))
  return state !== undefined && help.lacksProgram(card, state)
}

/** An answer; undefined where the node refuses it or stays away. */
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
  const why = plain(status.error ?? status.reason ?? 'the node gives no reason')
  switch (status.status) {
    case 'failed':
      throw ctx.fail(exitFor(status.reason), `${modelId} could not be pulled: ${why}` +
        (status.downloadedBytes > 0
          ? '\n  what was fetched is kept; the same command goes on from there' : ''))
    case 'paused':
      throw ctx.fail(1, `the download of ${modelId} was paused; \`svc downloads resume ${modelId}\` goes on`)
    case 'cancelled':
      throw ctx.fail(1,
        `the download of ${modelId} was cancelled; \`svc downloads resume ${modelId}\` goes on`)
    case 'not_found':
      throw ctx.fail(3, `the store knows no download of ${modelId}; \`svc downloads\` shows those it knows`)
  }
}

function planPath (modelId: string, { allow = [], ...named }: Omit<NamedModel, 'modelId'>): string {
  const words = [...Object.entries(named), ...allow.map((pattern): [string, string] => ['allow', pattern])]
  return `${storePath(modelId)}/download/plan?${new URLSearchParams(words).toString()}`
}

function tellPlan (ctx: VerbContext, plan: Answers['plan'], begin: string): void {
  for (const line of linesOf(plan, begin)) ctx.err.line(plain(line))
}

function linesOf (plan: Answers['plan'], begin: string): string[] {
  const { hub, files, totalBytes, weightsBytes, variant, engine, disk, memory, unused } = plan
  const kind = [engine === null ? null : engine.toUpperCase(), variant].filter((word) => word !== null)
  return [
    `${begin} from ${hub}: ${files} ${files === 1 ? 'file' : 'files'}, ${showBytes(totalBytes)}` +
    (kind.length === 0 ? '' : ` (${kind.join(' ')})`),
    ...unused.map((part) => `not used of it: ${part}`),
    `disk of the store, on ${disk.node}: ${showBytes(disk.roomBytes)} are free for it`,
    memory === null
      ? `memory: its weights take at least ${showBytes(weightsBytes)}`
      : `memory: it takes at least ${showBytes(memory.neededBytes)}` + (memory.problem === null
        ? `; fits on ${memory.nodes.map(givenBy).join(', ')}` : ', which the cluster has not got now')
  ]
}

const givenBy = ({ name, usableBytes }: NonNullable<Answers['plan']['memory']>['nodes'][number]): string =>
  `${name} (${showBytes(usableBytes)} free for it)`

/** The largest weights that would fit on the disk and into memory, as a command; undefined where none do. */
function smallerOf (plan: Answers['plan'], verb: 'run' | 'pull'): string | undefined {
  const { modelId, weightsBytes, variants, totalBytes, disk } = plan
  const rest = totalBytes - weightsBytes
  const smaller = variants.findLast(({ bytes, fits }) =>
    bytes < weightsBytes && fits !== false && bytes + rest <= disk.roomBytes)
  return smaller && `svc ${verb} ${modelId}:${smaller.name} (${showBytes(smaller.bytes)})`
}

/**
 * Brings a model that is not here into the store, for a verb that needs it: says what is fetched and whether
 * it fits, asks on a terminal unless `yes`, and shows how far it is. Throws VerbError.
 */
export async function fetchModel (
  ctx: VerbContext, pace: WaitClock, { modelId, ...named }: NamedModel, yes: boolean
): Promise<void> {
  const plan = await retryUntil<Answers['plan']>(ctx, planPath(modelId, named))
  tellPlan(ctx, plan, `${modelId} is not here;`)
  refuseTooLarge(ctx, plan)
  await bringEngine(ctx, plan, yes)
  if (!yes && canAsk(ctx) && !await confirm(ctx, `Fetch ${showBytes(plan.totalBytes)}?`)) {
    throw ctx.fail(1, 'nothing was fetched')
  }
  await bringIn(ctx, pace, { modelId, body: named })
}

/** Where no node has the program that the format runs on, offers it; throws where it does not come. */
async function bringEngine (
  ctx: VerbContext, { modelId, memory }: Answers['plan'], yes: boolean
): Promise<void> {
  const missing = memory?.engineMissing ?? null
  if (missing === null || await (await engineHelp(ctx, missing)).offer?.(ctx, yes) === true) return
  throw ctx.fail(1, `${modelId} runs on llama.cpp, whose llama-server no node has\n` +
    '  `svc engine add llama.cpp` brings it, on each node that is to run such models')
}

/** Throws with exit 6, the sum and the largest weights that would fit. */
function refuseTooLarge (ctx: VerbContext, plan: Answers['plan']): void {
  const { modelId, disk, memory } = plan
  if (disk.problem === null && (memory?.problem ?? null) === null) return
  const smaller = smallerOf(plan, 'run')
  throw ctx.fail(6, [
    disk.problem === null
      ? `${modelId} does not fit into memory: ${plain(memory!.problem!)}`
      : `${modelId} does not fit on the disk of ${disk.node}: ${plain(disk.problem)}`,
    smaller === undefined
      ? '  free some: `svc ps` shows what is loaded, `svc rm` and `svc purge` give disk back'
      : `  a smaller one: ${smaller}`
  ].join('\n'))
}
