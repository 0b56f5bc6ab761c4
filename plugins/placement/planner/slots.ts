/** Chooses the context length and the number of slots to fit the free memory of the devices. Pure. */
import { cacheOf, contextOf, USUAL_CONTEXT } from '../../runners/cards/memory-forecast.js'
import { isTensor, type ArrangedNode } from './arrange.js'
import { jobNeed, type Job } from './candidates.js'
import type { PlanRequest } from './types.js'

/** Share of the free memory for longer contexts and extra slots; the rest is left for other models. */
const SHARE = 1 / 4
/** Maximum context in tokens if the request sets none, and the number of slots that must fit with it. */
const LONGEST_CONTEXT = 32_768
const FEWEST_SLOTS = 8
/** How many times the context is halved, and the minimum context in tokens. */
const CONTEXTS_TRIED = 8
const LEAST_CONTEXT = 1024

export function smallerContexts (
  { card, contextLength }: Pick<PlanRequest, 'card' | 'contextLength'>, least = LEAST_CONTEXT
): number[] {
  const now = contextOf(card, contextLength)
  return Array.from({ length: CONTEXTS_TRIED }, (_, i) => Math.floor(now / 2 ** (i + 1)))
    .filter((tokens) => tokens >= least)
}

/**
 * Contexts above the usual one, longest first. Empty for embeddings and reranking, which truncate texts to
 * the usual context.
 */
function longerContexts ({ card }: PlanRequest): number[] {
  const longest = contextOf(card, LONGEST_CONTEXT)
  return card.tasks.some((task) => task === 'embeddings' || task === 'rerank') ? []
    : [longest, ...smallerContexts({ card, contextLength: longest })].filter((one) => one > USUAL_CONTEXT)
}

/** Sets the context length and the number of slots that fit in the devices' memory. */
export function fitContextAndSlots (job: Job, nodes: readonly ArrangedNode[]): Job {
  const { request, traits: { slots: most }, slots: kept } = job
  if (most === undefined || kept === undefined) return job
  const held = nodes.flatMap((node) => node.held.filter(({ layers }) => layers > 0))
  const bound = held.every(({ device }) => device !== 'ram') ? most.gpu : most.cpu
  const parts = job.layers * (isTensor(job, nodes.length) ? nodes.length : 1)
  const asked = request.contextLength
  /** Number of additional slots that fit in the given share of the free memory. */
  const more = (share: number, contextLength: number | undefined): number => Math.min(...held.map((on) => {
    const needed = (slots: number): number => jobNeed(
      { ...job, request: { ...request, contextLength }, slots }, { of: on.layers, parts }, on).neededBytes
    // The prompt cache has a minimum size, so the first slots cost less than later ones.
    const each = (needed(kept + bound) - needed(kept)) / bound
    const now = on.need.neededBytes
    const left = (on.usable.usableBytes - now - 1) * share + now - needed(kept)
    return each > 0 ? Math.floor(left / each) : left < 0 ? -1 : bound
  }))
  const fewest = request.slots ?? Math.min(FEWEST_SLOTS, bound)
  const contextLength = asked ??
    longerContexts(request).find((tokens) => kept + more(SHARE, tokens) >= fewest)
  const usual = Math.min(cacheOf(request.card, contextLength).contexts, 1 + more(1, contextLength))
  const slots = request.slots ?? Math.max(1, Math.min(bound, Math.max(usual, 1 + more(SHARE, contextLength))))
  return { ...job, request: { ...request, contextLength }, slots }
}
