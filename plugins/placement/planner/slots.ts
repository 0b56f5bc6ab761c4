/** For how many answers at once an instance keeps a context: as the memory of its devices allows. Pure. */
import { cacheOf } from '../../../kernel/index.js'
import { isTensor, type ArrangedNode } from './arrange.js'
import { jobNeed, type Job } from './candidates.js'

/** Beyond a small cache slots take at most this part of the free memory: other models need some. */
const SHARE = 1 / 4

/** Slots of a job that is arranged with one; undefined for an engine that has none. */
export function slotsFor (job: Job, nodes: readonly ArrangedNode[]): number | undefined {
  const { request: { card, contextLength, slots: asked }, traits: { slots: most } } = job
  if (most === undefined || asked !== undefined) return job.slots
  const held = nodes.flatMap((node) => node.held.filter(({ layers }) => layers > 0))
  const bound = held.every(({ device }) => device !== 'ram') ? most.gpu : most.cpu
  const parts = job.layers * (isTensor(job, nodes.length) ? nodes.length : 1)
  const more = (share: number): number => Math.min(...held.map((on) => {
    const { layers, need: { neededBytes }, usable: { usableBytes } } = on
    // The prompt cache has a least size: the first slots are cheaper than the later ones.
    const full = jobNeed({ ...job, slots: 1 + bound }, { of: layers, parts }, on)
    const [each, left] = [(full.neededBytes - neededBytes) / bound, usableBytes - neededBytes - 1]
    return each > 0 ? Math.floor(left * share / each) : bound
  }))
  const usual = Math.min(cacheOf(card, contextLength).contexts, 1 + more(1))
  return Math.max(1, Math.min(bound, Math.max(usual, 1 + more(SHARE))))
}
