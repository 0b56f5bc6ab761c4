/** The guide: sheets and their search. */
import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { declaredSheets } from './declared.js'
import { makeSearch, type Search } from './search.js'
import { allSheets, writtenSheets, type GuideEntry } from './entries.js'
import type { DeclarationSet } from '../../../kernel/cli/index.js'

export type { Found, Search } from './search.js'

/** Groups of synonyms. */
export function wordGroups (): string[][] {
  const lines = parse(readFileSync(new URL('./words.yaml', import.meta.url), 'utf8')) as string[]
  return lines.map((line) => line.split(' '))
}

/**
 * The search over written and declared sheets. Reads files and indexes them, which takes tenths of a second:
 * call it once, and not on a node's main thread.
 */
export const guideSearch = (declared: DeclarationSet): Search => searchIn(declaredSheets(declared))

export const searchIn = (declared: readonly GuideEntry[]): Search =>
  makeSearch(allSheets(writtenSheets(), declared), wordGroups())
