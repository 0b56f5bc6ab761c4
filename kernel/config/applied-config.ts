import { isDeepStrictEqual } from 'node:util'
import { cleanCopy, deleteIn, getIn, isTree, isUnder, parsePath, setIn } from './paths.js'
import type { Path, Tree } from './paths.js'
import type { ResolvedConfig } from './resolve.js'

/** Copies settings without empty sections, which have no meaning. */
const said = (written: unknown): unknown => JSON.parse(JSON.stringify({ written }), (_, value: unknown) =>
  isTree(value) && Object.keys(value).length === 0 ? undefined : value)

/** The applied contents of svc.yaml: as read at startup, plus later changes that took effect. */
export class AppliedConfig {
  readonly #first: ResolvedConfig
  readonly #tree: Tree
  /** Settings of plugins started after the node, in the order in which they were applied. */
  #taken: readonly { readonly under: Path, readonly config: ResolvedConfig }[] = []
  /** Values of settings that plugins have changed and put into effect themselves. */
  readonly #kept = new Map<string, unknown>()

  constructor (config: ResolvedConfig, written: unknown) {
    this.#first = config
    this.#tree = cleanCopy(written) as Tree
  }

  /** The resolved configuration that applies at a path. */
  at (path: string): ResolvedConfig {
    const parts = parsePath(path) ?? []
    return this.#taken.findLast(({ under }) => isUnder(parts, under))?.config ?? this.#first
  }

  /** Applies the values in `written` at and below these paths; `config` is the resolved configuration. */
  take (paths: readonly string[], config: ResolvedConfig, written: unknown): void {
    for (const path of paths) {
      const under = parsePath(path)!
      const value = getIn(written, under)
      if (value === undefined) deleteIn(this.#tree, under)
      else setIn(this.#tree, under, cleanCopy(value))
      // Replaces earlier entries at and below the path, so that repeated changes by a plugin do not pile up.
      this.#taken = [...this.#taken.filter((one) => !isUnder(one.under, under)), { under, config }]
    }
  }

  keep (path: string, value: unknown): void {
    setIn(this.#tree, parsePath(path)!, value)
    this.#kept.set(path, value)
  }

  says (written: unknown): boolean { return isDeepStrictEqual(said(written), said(this.#tree)) }

  /** All settings with their schemas; `restart` marks those whose value in the file is not in effect yet. */
  list (written: unknown): { entries: unknown[], unset: unknown[] } {
    const configs = [...new Set([this.#first, ...this.#taken.map(({ config }) => config)])]
    const schemas = new Map(configs.flatMap((config) => [...config.schemas()]
      .filter(([path]) => this.at(path) === config)))
    const shown: { path: string }[] = configs.flatMap((config) => config.entries()
      .filter(({ path }) => this.at(path) === config && !this.#kept.has(path)))
    for (const [path, value] of this.#kept) shown.push({ path, ...{ value, origin: 'file' } })
    const restart = (path: string): { restart?: true } => {
      const place = parsePath(path)!
      return isDeepStrictEqual(getIn(written, place), getIn(this.#tree, place)) ? {} : { restart: true }
    }
    const known = new Set(shown.map(({ path }) => path))
    return {
      entries: shown.map((entry) =>
        ({ ...entry, ...restart(entry.path), schema: schemas.get(entry.path) ?? null })),
      unset: [...schemas].filter(([path]) => !known.has(path))
        .map(([path, schema]) => ({ path, ...restart(path), schema }))
    }
  }
}
