import type { Clock, ErrorBody, Logger, LocalApi, RouteRequest } from '../../../kernel/index.js'
import type { Invocations } from '../../capabilities/service.js'
import type { Instances, Runners, TaskRequest } from '../../runners/service.js'
import type { Models } from '../../staging/service.js'
import type { Thread } from './anthropic-body.js'
import type { Rules } from './errors.js'
import type { ResponseStore } from './response-store.js'
import type { Collector, EndPiece, PieceOptions, TextPiece, Totals } from './pieces.js'

/** Dependencies of the route handlers. */
export interface ApiParts extends Rules {
  runners: Runners
  invocations: Invocations
  clock: Clock
  /** Conversations that clients can refer to later. */
  threads: ResponseStore<Thread>
  /** Calls this node's own API on behalf of the caller. */
  own: LocalApi
  /** Undefined if no plugin provides instances. */
  instances: Instances | undefined
  models: Models | undefined
  /** Models that are being loaded for Ollama clients, by model id. */
  loading: Map<string, Promise<void>>
  /** Start time of the node in Unix ms. */
  startedMs: number
  log: Logger
  /** A new id of letters and digits. */
  newId: () => string
}

/** `Body` is the schema of the request body. */
export type Handler<Body> = (parts: ApiParts, request: RouteRequest<{ readonly body: Body }>) => Promise<void>

/** A prompt as an engine task, with options for converting the engine's answer. */
export interface Prompt { task: TaskRequest['task'], reading: PieceOptions }

/** A request for text, with one or more prompts. */
export interface TextRequest extends TaskRequest, Prompt {
  /** Model name to show in the answer, if it differs from the model id. */
  shownAs?: string
  /** Milliseconds spent on loading the model for this request. */
  loadMs?: number
  /** For a request with several prompts: those after the first, and the number of answers per prompt. */
  more?: { prompts: readonly Prompt[], answers: number }
}

export interface AnswerMetadata {
  /** The command id, which is also the answer's id. */
  id: string
  model: string
  /** Creation time in Unix seconds. */
  created: number
  /** Monotonic ms since the request was accepted; `loadMs` of them were spent on loading the model. */
  elapsedMs: () => number
  loadMs: number
  newId: () => string
}

/** Turns pieces into the values of an API's answer. */
export interface Formatter {
  begin (promptTokens: number): object[]
  piece (piece: TextPiece | EndPiece): object[]
  end (totals: Totals): object[]
}

export interface Framing {
  contentType: string
  begin (commandId: string): string
  value (value: object): string
  end (totals: Totals): string
  /** The keep-alive that is sent while the engine produces no output. */
  beat: string
  failed (error: ErrorBody): string
}

/** Streamed and whole response format of an API. */
export interface AnswerFormat {
  framing: Framing
  formatter: (facts: AnswerMetadata) => Formatter
  whole: (answer: Collector, facts: AnswerMetadata) => object
}
