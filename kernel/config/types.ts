import type { JsonSchema } from '../api/schema.js'

/** A place in the settings, one segment per key; list items are their index as text. */
export type Path = readonly string[]

/** Environment variables, as in `process.env`. */
export type Env = Readonly<Record<string, string | undefined>>

/** A line and a column of svc.yaml, both counted from 1. */
export interface Position { readonly line: number, readonly column: number }

/** A plugin, as far as configuration is concerned: what of its manifest describes settings. */
export interface ConfigOwner {
  readonly name: string
  /** Schema of `plugins.<name>`. */
  readonly config?: JsonSchema
  /** Top-level keys the plugin owns, with their schemas. */
  readonly settings?: Readonly<Record<string, JsonSchema>>
  /** False for a plugin that svc.yaml names by `module`. */
  readonly bundled: boolean
}

/** One thing that is wrong, and where. */
export interface Problem {
  /** The file, or null when the value came from the environment, a flag or nowhere. */
  readonly file: string | null
  readonly line: number | null
  readonly column: number | null
  /** Dotted path of the setting; empty when the file as a whole is meant. */
  readonly path: string
  readonly message: string
  /** The environment variable or `command line`, when the value came from there. */
  readonly source?: string
  /** What the schema asks for, in words. */
  readonly expected?: string
  /** The key or value that was probably meant. */
  readonly suggestion?: string
}

/** A parsed svc.yaml, before anything is known about plugins. */
export interface RawConfig {
  /** Absolute path of the file, or null when there is none. */
  readonly file: string | null
  /** The settings as written; maps have no prototype. */
  readonly value: Readonly<Record<string, unknown>>
  readonly problems: readonly Problem[]
  /** True when the text could not be parsed, so that `value` says nothing. */
  readonly broken: boolean
  /** Where the key at a path stands; undefined when the file does not have it. */
  position (path: Path): Position | undefined
}

/** Thrown by the few functions that cannot return problems beside a result. */
export class ConfigError extends Error {
  readonly problems: readonly Problem[]
  constructor (message: string, problems: readonly Problem[] = []) {
    super(message)
    this.name = 'ConfigError'
    this.problems = problems
  }
}
