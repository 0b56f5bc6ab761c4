import { invalid } from '../errors.js'
import type { TokenTable } from '../tokens.js'
import { toolFormats, type ToolFormatName } from '../tool-formats.js'
import type { GrammarRequest, SamplingParams } from '../types.js'
import { upTo } from './automaton.js'
import { Builder, commonRules, type CommonRules } from './builder.js'
import { compileSchema } from './compile.js'
import { GrammarConstraint } from './constraint.js'
import type { Grammar, GrammarTools } from './constraint.js'
import { configOf, endFrame, epoch } from './machine.js'
import type { Rule } from './machine.js'
import { Masks } from './mask.js'
import { Free, Sequence } from './rules.js'
import { toolRule } from './tools.js'
import { buildTrie } from './trie.js'

/** Compiled grammars kept. */
const MAX_GRAMMARS = 32
/** Where a schema stands in a chat request. */
const SCHEMA_PATH = 'response_format/json_schema/schema'

/** Makes constraints for the sequences of one model; grammars and their masks are kept and shared. */
export class GrammarFactory {
  private readonly table: TokenTable | null
  private readonly vocabulary: number
  private readonly eosIds: ReadonlySet<number>
  private readonly format: ToolFormatName
  private readonly grammars = new Map<string, Grammar>()
  private epoch = 0
  private tools: GrammarTools & { common: CommonRules } | null = null

  constructor (table: TokenTable | null, vocabulary: number, eosIds: ReadonlySet<number>,
    format: ToolFormatName) {
    this.table = table
    this.vocabulary = vocabulary
    this.eosIds = eosIds
    this.format = format
  }

  /** The constraint of one sequence; null where nothing is to be enforced. Throws `invalid_request`. */
  constraint (params: Pick<SamplingParams,
    'grammar' | 'grammarAfter' | 'maxTokens'>): GrammarConstraint | null {
    if (params.grammar.kind === 'none') return null
    const shared = this.shared(params.grammar.kind === 'tools' ? 'tools' : 'response_format')
    const grammar = this.compiled(params.grammar, params.grammarAfter, shared.common)
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

  private compiled (grammar: GrammarRequest, marker: string | undefined,
    common: CommonRules): Grammar | null {
    const key = keyOf([grammar, marker])
    if (this.epoch !== epoch()) this.grammars.clear()
    this.epoch = epoch()
    let entry = this.grammars.get(key)
    if (entry === undefined) {
      const rule = this.rule(grammar, common)
      if (rule === null) return null
      const start = configOf((marker === undefined ? rule : spaced(rule, common, marker)).start(endFrame()))
      if (start === null) throw invalid('the grammar allows no output', 'response_format')
      entry = { start, path: grammar.kind === 'tools' ? 'tools' : 'response_format' }
    }
    // Last in the map is last used.
    this.grammars.delete(key)
    this.grammars.set(key, entry)
    if (this.grammars.size > MAX_GRAMMARS) this.grammars.delete(this.grammars.keys().next().value ?? '')
    return entry
  }

  private rule (grammar: GrammarRequest, common: CommonRules): Rule | null {
    switch (grammar.kind) {
      case 'json': return spaced(common.object, common)
      case 'schema': return spaced(compileSchema(grammar.schema, SCHEMA_PATH, common), common)
      case 'tools': return toolRule(grammar.tools, grammar.choice, toolFormats[this.format], common)
      default: return null
    }
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

/** White space, then the rule; where there is a marker, free text up to it before (as thinking). */
function spaced (rule: Rule, common: CommonRules, marker?: string): Rule {
  const make = new Builder(common, SCHEMA_PATH)
  const value = make.spaced(rule)
  const free = marker === undefined ? undefined : new Free(make, upTo(marker), false)
  return make.finished(free === undefined ? value : new Sequence(make, [free, value]))
}

function keyOf (value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch (error) {
    throw invalid(`the schema cannot be read: ${(error as Error).message}`, SCHEMA_PATH)
  }
}
