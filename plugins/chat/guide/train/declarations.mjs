// What the whole product declares, for the scripts here: run them with `node --import tsx/esm`.
import { declaredBy } from '../../../../kernel/cli/declared.ts'
import { bundled } from '../../../index.ts'
import { allSheets, writtenSheets } from '../sheets.ts'
import { declaredSheets } from '../declared.ts'

/** The declarations of the kernel and of the plugins that ship. */
export const declarations = declaredBy(bundled.map(({ manifest }) => manifest))

/** Every sheet of the product. */
export const sheets = allSheets(writtenSheets(), declaredSheets(declarations))
