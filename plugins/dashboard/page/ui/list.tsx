import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { ComponentChildren } from 'preact'

interface RowsProps<T> {
  label?: string
  items: readonly T[]
  keyOf: (item: T) => string
  /** Height of each row in px; a long list renders only the visible rows, if this is given. */
  rowHeight?: number
  row: (item: T) => ComponentChildren
}

/** Rows rendered beyond each edge of the screen, so that a short scroll shows no gap. */
const BEYOND = 6
/** Lists up to this length are rendered completely. */
const SHORT = 60

export function Rows<T> ({ label, items, keyOf, rowHeight = 0, row }: RowsProps<T>) {
  const ref = useRef<HTMLUListElement>(null)
  const [seen, setSeen] = useState({ first: 0, last: SHORT })
  const short = rowHeight === 0 || items.length <= SHORT
  useLayoutEffect(() => {
    const element = ref.current
    if (short || element === null) return
    const look = (): void => {
      const { top } = element.getBoundingClientRect()
      const first = Math.max(0, Math.floor(-top / rowHeight) - BEYOND)
      // For a list below the screen the end index is negative, which `slice` would count from the end.
      const last = Math.max(first, Math.ceil((innerHeight - top) / rowHeight) + BEYOND)
      setSeen((had) => had.first === first && had.last === last ? had : { first, last })
    }
    look()
    addEventListener('scroll', look, { passive: true })
    addEventListener('resize', look)
    return () => {
      removeEventListener('scroll', look)
      removeEventListener('resize', look)
    }
  }, [short, rowHeight])
  const first = short ? 0 : Math.min(seen.first, items.length)
  const shown = short ? items : items.slice(first, seen.last)
  const [above, height] = [first * rowHeight, items.length * rowHeight]
  const style = short ? {} : { paddingTop: `${above}px`, height: `${height}px`, boxSizing: 'border-box' }
  return (
    <ul ref={ref} class="rows" aria-label={label} style={style}>
      {shown.map((item) => (
        <li key={keyOf(item)} class="row" {...short ? {} : { style: { height: `${rowHeight}px` } }}>
          {row(item)}
        </li>
      ))}
    </ul>
  )
}

/** An element counts as scrolled to its end if it is at most this far from it, in px. */
const NEAR = 40

/** Keeps a scrolled element at its end, unless the user has scrolled up. */
export function useEnd (keys?: readonly unknown[]) {
  const ref = useRef<HTMLDivElement>(null)
  const follows = useRef(true)
  useLayoutEffect(() => {
    const element = ref.current
    if (element !== null && follows.current) element.scrollTop = element.scrollHeight
  }, keys)
  const onScroll = (): void => {
    const { scrollTop, clientHeight, scrollHeight } = ref.current!
    follows.current = scrollHeight - scrollTop - clientHeight < NEAR
  }
  return { ref, onScroll }
}
