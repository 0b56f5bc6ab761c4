import type { Clock, ErrorBody, Logger, LocalApi, RouteRequest } from '../../../kernel/index.js'
import type { Invocations } from '../../capabilities/service.js'
import type { Instances, Runners, TaskRequest } from '../../runners/service.js'
import type { Models } from '../../staging/service.js'
import type { Thread } from './anthropic-body.js'
import type { Rules } from './errors.js'
import type { ResponseStore } from './response-store.js'
import type { DerivedModels } from './derived-models.js'
import type { Collector, EndPiece, PieceOptions, TextPiece, Totals } from './pieces.js'
import type { KeptResponse } from './responses-body.js'

/** What the routes of every API work with. */
export interface ApiParts extends Rules {
  runners: Runners
  invocations: Invocations
  clock: Clock
  /** Conversations and answers that clients have kept here. */
  threads: ResponseStore<Thread>
  responses: ResponseStore<KeptResponse>
  /** This node's own API, in the name of who asks. */
  own: LocalApi
  /** What is placed, and what is on disk; undefined where no plugin says. */
  instances: Instances | undefined
  models: Models | undefined
  /** Models that are made of others, by name, over the whole cluster. */
  makes: DerivedModels
  /** Models that are being loaded for requests of Ollama's clients. */
  loading: Map<string, Promise<void>>
  /** When the node started, ms. */
  startedMs: number
  log: Logger
  /** A new id of characters and digits. */
  newId: () => string
}

/** A route's handler; `Body` is the schema of its body. */
export type Handler<Body> = (parts: ApiParts, request: RouteRequest<{ readonly body: Body }>) => Promise<void>

/** A prompt as a task of the engine, and how its answers are read. */
export interface Prompt { task: TaskRequest['task'], reading: PieceOptions }

/** A request for text: its prompt, and further ones where it has a list of them. */
export interface TextRequest extends TaskRequest, Prompt {
  /** The model's name in the answer, where that is not its own. */
  shownAs?: string
  /** Time to load the model for this request, ms. */
  loadMs?: number
  /** They have `answers` answers each. */
  more?: { prompts: readonly Prompt[], answers: number }
}

/** Metadata of an answer. */
export interface AnswerMetadata {
  /** The command id. */
  id: string
  model: string
  /** Unix seconds. */
  created: number
  /** Since the request was accepted, and the time of these to load the model; monotonic ms. */
  elapsedMs: () => number
  loadMs: number
  newId: () => string
}

/** Makes the values of an API's answer of its pieces. */
export interface Formatter {
  begin (promptTokens: number): object[]
  piece (piece: TextPiece | EndPiece): object[]
  end (totals: Totals): object[]
}

/** Stream format of an API. */
export interface Framing {
  contentType: string
  /** The first bytes of a stream. */
  begin (commandId: string): string
  value (value: object): string
  end (totals: Totals): string
  /** Shows that the stream is alive. */
  beat: string
  failed (error: ErrorBody): string
}

/** Answer formats of an API: streamed and whole. */
export interface AnswerFormat {
  framing: Framing
  formatter: (facts: AnswerMetadata) => Formatter
  whole: (answer: Collector, facts: AnswerMetadata) => object
}
