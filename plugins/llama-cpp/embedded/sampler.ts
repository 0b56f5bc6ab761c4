/** Chooses one answer's tokens, and reports their log probabilities. */
import { EngineError } from '../../../kernel/api/engine.js'
import type { TokenTable } from '../text/stream.js'
import type { Binding, NativeContext, NativeModel, NativeSampler, SamplerConfig } from './binding.js'
import { invalid } from '../../runners/language/refusals.js'

interface TokenLogprob { token: string, logprob: number, bytes: number[] }
export interface Report extends TokenLogprob { top_logprobs: TokenLogprob[] }

/** The value that OpenAI reports as the logprob of a token whose probability is 0. */
const LEAST = -9_999
/** Number of candidates to fetch first; they nearly always include the chosen token. */
const CANDIDATES = 64

export interface SamplerParts {
  native: Binding, model: NativeModel, context: NativeContext, table: TokenTable
}

/** Reported probabilities are the model's, before biases, penalties, temperature and grammar. */
export class TokenSampler {
  private readonly parts: SamplerParts
  private readonly tops: number
  private readonly chooser: NativeSampler
  /** Two samplers: one reports the most likely token's probability, the other reports the candidates. */
  private readonly readers: readonly [NativeSampler, NativeSampler] | null

  /** @throws EngineError invalid_request for a grammar that llama.cpp refuses */
  constructor (
    parts: SamplerParts, config: SamplerConfig, gbnf: string | null, logprobs: { tops: number } | null
  ) {
    const { native, model } = parts
    this.parts = parts
    this.tops = logprobs?.tops ?? 0
    const grammar = gbnf === null ? {} : { grammarEvaluationState: grammarState(parts, gbnf) }
    const sampler = (settings: SamplerConfig): NativeSampler => {
      const made = new native.AddonSampler(model)
      made.applyConfig(settings)
      return made
    }
    this.chooser = sampler({ ...config, ...grammar })
    this.readers = logprobs === null ? null : [
      sampler({}), sampler({ temperature: 1, topK: Math.max(CANDIDATES, this.tops), seed: 0 })]
  }

  async choose (at: number): Promise<{ token: number, report: Report | null }> {
    const token = await this.parts.context.sampleToken(at, this.chooser)
    if (token < 0) throw new EngineError('provider_error', 'the model gave no token a finite probability')
    return { token, report: this.readers === null ? null : await this.read(at, token, ...this.readers) }
  }

  dispose (): void { for (const sampler of [this.chooser, ...this.readers ?? []]) sampler.dispose() }

  private async read (
    at: number, token: number, likeliest: NativeSampler, candidates: NativeSampler
  ): Promise<Report> {
    const { context } = this.parts
    const [, , best = 1] = await context.sampleToken(at, likeliest, false, true)
    const [, among = []] = await context.sampleToken(at, candidates, true, false)
    // The addon's probabilities are relative to the candidates, so scale them by the best one's probability.
    let found = pairs(among).map(({ id, share }) => ({ id, share: share / among[1]! * best }))
    if (!found.some(({ id }) => id === token)) {
      const [, all = []] = await context.sampleToken(at, likeliest, true, false)
      found = pairs(all)
    }
    const chosen = found.find(({ id }) => id === token)
    return {
      ...this.named(token, chosen?.share ?? 0),
      top_logprobs: found.slice(0, this.tops).map(({ id, share }) => this.named(id, share))
    }
  }

  private named (id: number, probability: number): TokenLogprob {
    const bytes = [...this.parts.table.bytesOf(id)]
    const logprob = Math.max(LEAST, Math.log(probability))
    return { token: Buffer.from(bytes).toString(), logprob, bytes }
  }
}

const pairs = (list: readonly number[]): { id: number, share: number }[] =>
  Array.from({ length: list.length / 2 }, (_, i) => ({ id: list[2 * i]!, share: list[2 * i + 1]! }))

function grammarState ({ native, model }: SamplerParts, gbnf: string): object {
  try {
    const grammar = new native.AddonGrammar(gbnf, { addonExports: native, rootRuleName: 'root' })
    return new native.AddonGrammarEvaluationState(model, grammar)
  } catch { throw invalid('llama.cpp cannot parse the grammar', 'grammar') }
}
