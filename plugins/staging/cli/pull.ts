import { askPatiently, exitFor, storePath } from './api.js'
import { amountOf, createMeter, showReadings } from './meter.js'
import {
  isVerbError, modelInPath, plain, programIn, realPace, showBytes, stillness
} from '../../../kernel/cli/index.js'
import { phonemizerHint } from '../../capabilities-tts/service.js'
import { GGUF_ENGINE } from '../../llama-cpp/engine.js'
import { nobodyRuns, offerEngine } from '../../llama-cpp/service.js'
import type { ModelCard } from '../../../kernel/index.js'
import { planPath, smallerOf, tellPlan } from './plan.js'
import { wantedFrom } from './source.js'
import type { Wanted } from './source.js'
import type { SeenPrograms } from '../../llama-cpp/service.js'
import type { DownloadPlan } from '../handlers/plan.js'
import type { DownloadStatus } from '../store/download.js'
import type { Pace, Verb, VerbContext } from '../../../kernel/cli/index.js'

/** Pause between two looks at a download, ms. */
const POLL_MS = 500

/** `svc pull`: brings a model into the store and shows how far it is. */
export function createPull (pace: Pace): Verb {
  return {
    async run (ctx, [word], options) {
      const { modelId, body } = wantedFrom(ctx, word!, options)
      if (!ctx.out.json) await foretell(ctx, { modelId, body })
      const first = await begin(ctx, { modelId, body })
      if (options['background'] === true) {
        inBackground(ctx, first)
        return
      }
      try {
        await finish(ctx, await follow(ctx, pace, first), options['yes'] === true)
      } catch (error) {
        if (!ctx.signal.aborted) throw error
        ctx.err.line(GOES_ON)
        return 130
      }
    }
  }
}

export default createPull(realPace)

/** Brings a model into the store for another verb. Throws VerbError for every end but a complete one. */
export async function bringIn (ctx: VerbContext, pace: Pace, wanted: Wanted): Promise<void> {
  try {
    checkEnd(ctx, await follow(ctx, pace, await begin(ctx, wanted)))
  } catch (error) {
    if (!ctx.signal.aborted) throw error
    ctx.err.line(GOES_ON)
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
async function foretell (ctx: VerbContext, { modelId, body }: Wanted): Promise<void> {
  if (/^(file|node):/.test(body.source ?? '')) return
  try {
    const plan = await ctx.client.json<DownloadPlan>(planPath(modelId, body))
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

const GOES_ON = 'the download continues; svc downloads shows it'

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
async function follow (ctx: VerbContext, pace: Pace, first: DownloadStatus): Promise<DownloadStatus> {
  const meter = createMeter(first.modelId)
  const isStill = stillness(pace)
  let status = first
  let shown = ''
  for (;;) {
    const text = JSON.stringify(status)
    if (ctx.out.json && text !== shown) ctx.out.value(status)
    shown = text
    showReadings(ctx, [meter(amountOf(status))])
    if (over(status)) break
    if (isStill(text)) throw ctx.fail(4, `nothing has come for 6 minutes; ${GOES_ON}`)
    await pace.pause(POLL_MS, ctx.signal)
    status = await askPatiently(ctx, `${storePath(first.modelId)}/download/status`)
  }
  ctx.err.end()
  return status
}

/**
 * What came of it, and what to do next; where no node has the program that the model runs on, that is
 * offered. Throws as `checkEnd`.
 */
async function finish (ctx: VerbContext, status: DownloadStatus, yes: boolean): Promise<void> {
  const { modelId, totalBytes } = status
  checkEnd(ctx, status)
  if (ctx.out.json) return
  ctx.out.line(`${modelId} is in the store${totalBytes === 0 ? '' : `: ${showBytes(totalBytes)}`}`)
  const card = await seenCard(ctx, modelId)
  const hint = phonemizerHint(card ?? {})
  if (hint !== undefined) ctx.err.line(plain(hint))
  const untold = card?.support['chat_template']
  if (untold !== undefined) ctx.err.line(plain(`chat template: ${untold}`))
  const ready = !await lacksEngine(ctx, card) || await offerEngine(ctx, yes)
  if (!ready) ctx.err.line('it runs on llama.cpp, which no node has: `svc engine add llama.cpp` brings it')
  ctx.err.line(`next: ${programIn(ctx.io.cwd)} place ${modelId}`)
}

type SeenCard = Pick<ModelCard, 'engine' | 'family' | 'languages' | 'backends' | 'files' | 'support'>

/** The card of a model; undefined where it cannot be asked for. */
async function seenCard (ctx: VerbContext, modelId: string): Promise<SeenCard | undefined> {
  return (await asked(ctx.client.json<{ card: SeenCard }>(`/models/${modelInPath(modelId)}/card`)))?.card
}

/** Whether no node has the program that the model runs on; false where that cannot be asked. */
async function lacksEngine ({ client }: VerbContext, card: SeenCard | undefined): Promise<boolean> {
  if (card?.engine !== GGUF_ENGINE) return false
  const state = await asked(client.json<SeenPrograms>('/state'))
  return state !== undefined && nobodyRuns(card, state)
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

/** Throws VerbError for every end but a complete one. */
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
      throw ctx.fail(1, `the download of ${modelId} was cancelled; \`svc pull ${modelId}\` goes on`)
    case 'not_found':
      throw ctx.fail(3, `the store knows no download of ${modelId}; \`svc downloads\` shows those it knows`)
  }
}
