import type { SamplingParams } from './types.js'

type Params = Pick<SamplingParams,
  'repetitionPenalty' | 'frequencyPenalty' | 'presencePenalty' | 'repeatLastN'>

/**
 * Makes tokens less likely that came before. Repetition as Keskar et al. 2019 (arXiv 1909.05858): divides
 * positive and multiplies negative logits, once however often a token came. Frequency and presence as in
 * OpenAI's API reference: logit - count * frequency - (count > 0) * presence.
 *
 * Without `repeatLastN` repetition counts prompt and output, as in vLLM, and the others the output only, as
 * at OpenAI. With it all three count the last so many tokens of prompt and output, as in llama.cpp and
 * Ollama: -1 for all, 0 for none.
 */
export class Penalties {
  readonly #params: Params
  readonly #off: boolean
  /** How often each token came, of those that are counted. */
  readonly #counts = new Map<number, number>()
  /** Tokens of the prompt where repetition alone counts them. */
  readonly #inPrompt = new Set<number>()
  /** With a window: all tokens in order, and where those begin that are counted. */
  readonly #ids: number[] = []
  #from = 0

  constructor (params: Params) {
    const { repetitionPenalty, frequencyPenalty, presencePenalty, repeatLastN } = params
    this.#params = params
    this.#off = repeatLastN === 0 ||
      (repetitionPenalty === 1 && frequencyPenalty === 0 && presencePenalty === 0)
  }

  /** Tokens of the prompt, before the first one is chosen. */
  prompt (ids: readonly number[]): void {
    if (this.#off) return
    const { repeatLastN: last } = this.#params
    if (last === null) for (const id of ids) this.#inPrompt.add(id)
    else for (const id of last > 0 ? ids.slice(-last) : ids) this.#count(id)
  }

  chose (id: number): void {
    if (!this.#off) this.#count(id)
  }

  apply (logits: Float32Array): void {
    if (this.#off) return
    const { repetitionPenalty: r, frequencyPenalty, presencePenalty } = this.#params
    const repeat = (id: number): void => {
      const x = logits[id] as number
      logits[id] = x < 0 ? x * r : x / r
    }
    for (const id of this.#inPrompt) if (id in logits) repeat(id)
    for (const [id, count] of this.#counts) {
      if (!(id in logits)) continue
      if (!this.#inPrompt.has(id)) repeat(id)
      logits[id] = (logits[id] as number) - count * frequencyPenalty - presencePenalty
    }
  }

  #count (id: number): void {
    const counts = this.#counts
    counts.set(id, (counts.get(id) ?? 0) + 1)
    const { repeatLastN: last } = this.#params
    if (last === null || last < 0) return
    this.#ids.push(id)
    if (this.#ids.length - this.#from <= last) return
    const old = this.#ids[this.#from++] as number
    const left = (counts.get(old) as number) - 1
    if (left === 0) counts.delete(old)
    else counts.set(old, left)
  }
}
