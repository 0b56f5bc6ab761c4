/** Context and slots of an instance: as the memory of its devices allows. Pure. */
import { cacheOf, contextOf, USUAL_CONTEXT } from '../../runners/cards/memory-forecast.js'
import { isTensor, type ArrangedNode } from './arrange.js'
import { jobNeed, type Job } from './candidates.js'
import type { PlanRequest } from './types.js'

/** Beyond a small cache contexts take at most this part of the free memory: other models need some. */
const SHARE = 1 / 4
/** The longest context that is chosen for a request without one, and the fewest slots it leaves. */
const LONGEST_CONTEXT = 32_768
const FEWEST_SLOTS = 8
/** Smaller contexts that are tried, down to so many tokens. */
const CONTEXTS_TRIED = 8
const LEAST_CONTEXT = 1024

export function smallerContexts (
  { card, contextLength }: Pick<PlanRequest, 'card' | 'contextLength'>, least = LEAST_CONTEXT
): number[] {
  const now = contextOf(card, contextLength)
  return Array.from({ length: CONTEXTS_TRIED }, (_, i) => Math.floor(now / 2 ** (i + 1)))
    .filter((tokens) => tokens >= least)
}

/** Contexts above the usual one, the longest first; none to embed or rank texts, which are cut at that. */
function longerContexts ({ card }: PlanRequest): number[] {
  const longest = contextOf(card, LONGEST_CONTEXT)
  return card.tasks.some((task) => task === 'embeddings' || task === 'rerank') ? []
    : [longest, ...smallerContexts({ card, contextLength: longest })].filter((one) => one > USUAL_CONTEXT)
}

/** A job as it is arranged, with the context and the slots for which its devices have memory. */
export function fitContextAndSlots (job: Job, nodes: readonly ArrangedNode[]): Job {
  const { request, traits: { slots: most }, slots: kept } = job
  if (most === undefined || kept === undefined) return job
  const held = nodes.flatMap((node) => node.held.filter(({ layers }) => layers > 0))
  const bound = held.every(({ device }) => device !== 'ram') ? most.gpu : most.cpu
  const parts = job.layers * (isTensor(job, nodes.length) ? nodes.length : 1)
  const asked = request.contextLength
  /** Further slots that fit into a share of the memory left. */
  const more = (share: number, contextLength: number | undefined): number => Math.min(...held.map((on) => {
    const needed = (slots: number): number => jobNeed(
      { ...job, request: { ...request, contextLength }, slots }, { of: on.layers, parts }, on).neededBytes
    // The prompt cache has a least size: the first slots are cheaper than the later ones.
    const each = (needed(kept + bound) - needed(kept)) / bound
    const now = on.need.neededBytes
    const left = (on.usable.usableBytes - now - 1) * share + now - needed(kept)
    return each > 0 ? Math.floor(left / each) : left < 0 ? -1 : bound
  }))
  const fewest = request.slots ?? Math.min(FEWEST_SLOTS, bound)
  const contextLength = asked ??
    longerContexts(request).find((tokens) => kept + more(SHARE, tokens) >= fewest)
  const usual = Math.min(cacheOf(request.card, contextLength).contexts, 1 + more(1, contextLength))
  const slots = request.slots ??
    Math.max(1, Math.min(bound, Math.max(usual, 1 + more(SHARE, contextLength))))
  return { ...job, request: { ...request, contextLength }, slots }
}
