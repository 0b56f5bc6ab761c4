/** Answers about svc: the sheets, and the search on them. */
import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { declaredSheets } from './declared.js'
import { makeSearch } from './search.js'
import { allSheets, writtenSheets } from './entries.js'
import type { DeclarationSet } from '../../../kernel/cli/index.js'
import type { Search } from './search.js'
import type { GuideEntry } from './entries.js'

export type { Found, Search } from './search.js'

/** Lists of words that mean much the same in a question. */
export function wordGroups (): string[][] {
  const lines = parse(readFileSync(new URL('./words.yaml', import.meta.url), 'utf8')) as string[]
  return lines.map((line) => line.split(' '))
}

/**
 * The search on all sheets, written and declared. Reads the files beside this one and counts their words:
 * tenths of a second of work, to be done once, and not in a node.
 */
export const guideSearch = (declared: DeclarationSet): Search => searchIn(declaredSheets(declared))

/** The same on the written sheets and these declared ones. */
export const searchIn = (declared: readonly GuideEntry[]): Search =>
  makeSearch(allSheets(writtenSheets(), declared), wordGroups())
