import { invalid } from '../errors.js'
import type { TokenTable } from '../tokens.js'
import { reasonings, type ReasoningName } from '../reasoning.js'
import { toolFormats, type ToolFormatName } from '../tools/index.js'
import type { GrammarRequest, SamplingParams } from '../types.js'
import { commonRules, type CommonRules } from './builder.js'
import { GrammarConstraint } from './constraint.js'
import type { Grammar, GrammarTools } from './constraint.js'
import { configOf, endFrame, epoch } from './machine.js'
import { Masks } from './mask.js'
import { outputRule, SCHEMA_PATH, type Place } from './output.js'
import { buildTrie } from './trie.js'

/** Compiled grammars kept. */
const MAX_GRAMMARS = 32

/** How a model writes, read when the first grammar needs it. */
export interface Writes { toolFormat: ToolFormatName | null, reasoning: ReasoningName | null }

/** Makes constraints for the sequences of one model; grammars and their masks are kept and shared. */
export class GrammarFactory {
  private readonly table: TokenTable | null
  private readonly vocabulary: number
  private readonly eosIds: ReadonlySet<number>
  private readonly writes: Writes
  private readonly grammars = new Map<string, Grammar>()
  private epoch = 0
  private tools: GrammarTools & { common: CommonRules } | null = null
  private python: CommonRules | null = null

  constructor (table: TokenTable | null, vocabulary: number, eosIds: ReadonlySet<number>,
    writes: Writes) {
    this.table = table
    this.vocabulary = vocabulary
    this.eosIds = eosIds
    this.writes = writes
  }

  /** The constraint of one sequence; null where nothing is to be enforced. Throws `invalid_request`. */
  constraint (params: Pick<SamplingParams,
    'grammar' | 'grammarAfter' | 'thoughts' | 'maxTokens'>): GrammarConstraint | null {
    if (params.grammar.kind === 'none') return null
    const shared = this.shared(params.grammar.kind === 'tools' ? 'tools' : 'response_format')
    const { grammarAfter: after, thoughts } = params
    const grammar = this.compiled(params.grammar, { after, thoughts }, shared.common)
    return grammar === null ? null : new GrammarConstraint(shared, grammar, params.maxTokens)
  }

  /** Builds what all grammars share, where this model can keep to one, before a request waits for it. */
  warm (): void {
    try {
      this.shared('')
    } catch {
      // Each request for a grammar gets the refusal.
    }
  }

  private compiled (grammar: GrammarRequest, place: Place, common: CommonRules): Grammar | null {
    const key = keyOf([grammar, place])
    if (this.epoch !== epoch()) this.grammars.clear()
    this.epoch = epoch()
    let entry = this.grammars.get(key)
    if (entry === undefined) {
      const { toolFormat, reasoning } = this.writes
      const rule = outputRule(grammar, {
        common, python: () => this.python ??= commonRules(common.ascii, true),
        format: toolFormat === null ? null : toolFormats[toolFormat],
        reasoning: reasoning === null ? null : reasonings[reasoning]
      }, place)
      if (rule === null) return null
      const start = configOf(rule.start(endFrame()))
      if (start === null) throw invalid('the grammar allows no output', 'response_format')
      entry = { start, path: grammar.kind === 'tools' ? 'tools' : 'response_format' }
    }
    // Last in the map is last used.
    this.grammars.delete(key)
    this.grammars.set(key, entry)
    if (this.grammars.size > MAX_GRAMMARS) this.grammars.delete(this.grammars.keys().next().value ?? '')
    return entry
  }

  /** @throws EngineError invalid_request at `path` where this model cannot keep to any grammar */
  private shared (path: string): GrammarTools & { common: CommonRules } {
    if (this.tools !== null) return this.tools
    const { table, eosIds } = this
    if (table === null || eosIds.size === 0) {
      throw invalid('this model cannot keep to a grammar: its tokenizer gives no exact bytes, or it names ' +
        'no end token', path)
    }
    const trie = buildTrie(table, eosIds)
    for (let b = 0x20; b < 0x7f; b++) {
      if (!trie.single.has(b)) {
        throw invalid(`this model cannot keep to a grammar: "${String.fromCharCode(b)}" is no token`, path)
      }
    }
    this.tools = { table, eosIds, masks: new Masks(trie, this.vocabulary), common: commonRules(trie.ascii) }
    return this.tools
  }
}

function keyOf (value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch (error) {
    throw invalid(`the schema cannot be read: ${(error as Error).message}`, SCHEMA_PATH)
  }
}
