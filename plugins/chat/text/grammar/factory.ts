import { badModel, invalid } from '../errors.js'
import type { TokenTable } from '../tokens.js'
import type { GrammarRequest, SamplingParams, ToolFormat } from '../types.js'
import { commonRules, compileSchema, whole } from './compile.js'
import type { CommonRules } from './compile.js'
import { GrammarConstraint } from './constraint.js'
import type { GrammarTools } from './constraint.js'
import { configOf, endFrame } from './machine.js'
import type { Config, Rule } from './machine.js'
import { Masks } from './mask.js'
import { afterMarker, toolRule } from './tools.js'
import { buildTrie } from './trie.js'

/** Compiled grammars kept, and how often one is used before its grown states are thrown away. */
const MAX_GRAMMARS = 32
const MAX_USES = 256
/** Where a schema stands in a chat request. */
const SCHEMA_PATH = 'response_format/json_schema/schema'

/** Makes constraints for the sequences of one model; grammars and their masks are kept and shared. */
export class GrammarFactory {
  private readonly table: TokenTable | null
  private readonly vocabulary: number
  private readonly eosIds: ReadonlySet<number>
  private readonly format: ToolFormat
  private readonly grammars = new Map<string, { start: Config, uses: number }>()
  private tools: GrammarTools & { common: CommonRules } | null = null

  constructor (table: TokenTable | null, vocabulary: number, eosIds: ReadonlySet<number>,
    format: ToolFormat) {
    this.table = table
    this.vocabulary = vocabulary
    this.eosIds = eosIds
    this.format = format
  }

  /** The constraint of one sequence; null where nothing is to be enforced. Throws `invalid_request`. */
  constraint (params: Pick<SamplingParams,
    'grammar' | 'grammarAfter' | 'maxTokens'>): GrammarConstraint | null {
    if (params.grammar.kind === 'none') return null
    const shared = this.shared()
    const start = this.start(params.grammar, params.grammarAfter, shared.common)
    return start === null ? null : new GrammarConstraint(shared, start, params.maxTokens)
  }

  private start (grammar: GrammarRequest, marker: string | undefined, common: CommonRules): Config | null {
    const key = keyOf([grammar, marker])
    let entry = this.grammars.get(key)
    if (entry === undefined || entry.uses >= MAX_USES) {
      const rule = this.rule(grammar, common)
      if (rule === null) return null
      const start = configOf((marker === undefined ? rule : afterMarker(marker, rule)).start(endFrame()))
      if (start === null) throw invalid('the grammar allows no output', 'response_format')
      entry = { start, uses: 0 }
    }
    entry.uses++
    // Last in the map is last used.
    this.grammars.delete(key)
    this.grammars.set(key, entry)
    if (this.grammars.size > MAX_GRAMMARS) this.grammars.delete(this.grammars.keys().next().value ?? '')
    return entry.start
  }

  private rule (grammar: GrammarRequest, common: CommonRules): Rule | null {
    switch (grammar.kind) {
      case 'json': return whole(common.object)
      case 'schema': return whole(compileSchema(grammar.schema, SCHEMA_PATH, common))
      case 'tools': return toolRule(grammar.tools, grammar.choice, this.format, common)
      default: return null
    }
  }

  /** Built at the first use: most sequences have no grammar. */
  private shared (): GrammarTools & { common: CommonRules } {
    if (this.tools !== null) return this.tools
    const { table, eosIds } = this
    if (table === null || eosIds.size === 0) {
      throw badModel('this model cannot keep to a grammar: its tokenizer gives no exact bytes, or it names ' +
        'no end token')
    }
    const trie = buildTrie(table, eosIds)
    for (let b = 0x20; b < 0x7f; b++) {
      if (!trie.single.has(b)) {
        throw badModel(`this model cannot keep to a grammar: "${String.fromCharCode(b)}" is no token`)
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
