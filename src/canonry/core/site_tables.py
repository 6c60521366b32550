"""Generated from core/data/sites/ by tools/tables.py (make tables); do not edit."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SITE_PAGES: dict[str, dict[str, Any]] = {
 'airbnb@1': {
  'blocks': (
   {
    'hosts': (
     ('airbnb.com', 'www.airbnb.com', 0, '', ()),
     ('airbnb.at', 'www.airbnb.com', 1, '', ()),
     ('airbnb.be', 'www.airbnb.com', 2, '', ()),
     ('airbnb.ca', 'www.airbnb.com', 3, '', ()),
     ('airbnb.ch', 'www.airbnb.com', 4, '', ()),
     ('airbnb.cl', 'www.airbnb.com', 5, '', ()),
     ('airbnb.co.in', 'www.airbnb.com', 6, '', ()),
     ('airbnb.co.kr', 'www.airbnb.com', 7, '', ()),
     ('airbnb.co.nz', 'www.airbnb.com', 8, '', ()),
     ('airbnb.co.uk', 'www.airbnb.com', 9, '', ()),
     ('airbnb.com.au', 'www.airbnb.com', 10, '', ()),
     ('airbnb.com.br', 'www.airbnb.com', 11, '', ()),
     ('airbnb.com.hk', 'www.airbnb.com', 12, '', ()),
     ('airbnb.com.sg', 'www.airbnb.com', 13, '', ()),
     ('airbnb.com.tr', 'www.airbnb.com', 14, '', ()),
     ('airbnb.cz', 'www.airbnb.com', 15, '', ()),
     ('airbnb.de', 'www.airbnb.com', 16, '', ()),
     ('airbnb.dk', 'www.airbnb.com', 17, '', ()),
     ('airbnb.es', 'www.airbnb.com', 18, '', ()),
     ('airbnb.fi', 'www.airbnb.com', 19, '', ()),
     ('airbnb.fr', 'www.airbnb.com', 20, '', ()),
     ('airbnb.gr', 'www.airbnb.com', 21, '', ()),
     ('airbnb.hu', 'www.airbnb.com', 22, '', ()),
     ('airbnb.ie', 'www.airbnb.com', 23, '', ()),
     ('airbnb.it', 'www.airbnb.com', 24, '', ()),
     ('airbnb.jp', 'www.airbnb.com', 25, '', ()),
     ('airbnb.mx', 'www.airbnb.com', 26, '', ()),
     ('airbnb.nl', 'www.airbnb.com', 27, '', ()),
     ('airbnb.no', 'www.airbnb.com', 28, '', ()),
     ('airbnb.pl', 'www.airbnb.com', 29, '', ()),
     ('airbnb.pt', 'www.airbnb.com', 30, '', ()),
     ('airbnb.se', 'www.airbnb.com', 31, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/rooms/{id:digits}',),
      'groups': (
       0,
       1,
       2,
       3,
       4,
       5,
       6,
       7,
       8,
       9,
       10,
       11,
       12,
       13,
       14,
       15,
       16,
       17,
       18,
       19,
       20,
       21,
       22,
       23,
       24,
       25,
       26,
       27,
       28,
       29,
       30,
       31,
      ),
      'write': '/rooms/{id}',
      'drop': (
       '_set_bev_on_new_domain', 'category_tag', 'federated_search_id', 'federated_search_session_id',
       'impression_id', 'previous_page_section_name', 'ref_device_id', 's', 'search_mode',
       'set_bev_on_new_domain', 'shared_item_type', 'sharer_id', 'source_impression_id', 'unique_share_id',
       'virality_entry_point', 'viralityentrypoint',
      ),
     },
    ),
   },
  ),
 },
 'aliexpress@1': {
  'blocks': (
   {
    'hosts': (
     ('aliexpress.com', 'www.aliexpress.com', 0, '', ()),
     ('m.aliexpress.com', 'www.aliexpress.com', 1, '', ()),
     (
      '*.aliexpress.com',
      'www.aliexpress.com',
      2,
      '{language=ar|de|es|fr|he|id|it|ja|ko|nl|pl|pt|th|tr|vi}',
      (),
     ),
    ),
    'https': True,
    'slash': 'strip',
    'drop': (
     'aff_*', 'algo_expid', 'algo_pvid', 'btsid', 'gatewayadapt', 'pdp_npi', 'scm*', 'spm', 'terminal_id',
     'ws_ab_test',
    ),
    'pages': (
     {
      'path': ('/item/{id:digits}.html', '/i/{id:digits}.html'),
      'groups': (0, 1, 2),
      'write': '/item/{id}.html',
      'keep': ('sku_id', 'skuid'),
     },
     {
      'path': ('/item/{slug}/{id:digits}.html',),
      'groups': (0, 1, 2),
      'write': '/item/{id}.html',
      'keep': ('sku_id', 'skuid'),
     },
    ),
   },
  ),
 },
 'allrecipes@1': {
  'blocks': (
   {
    'hosts': (('allrecipes.com', 'www.allrecipes.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/recipe/{id:digits}/{slug}',),
      'not': {'slug': ('print', 'photos', 'reviews')},
      'write': '/recipe/{id}',
     },
    ),
   },
  ),
 },
 'amazon@1': {
  'blocks': (
   {
    'hosts': (
     ('amazon.com', 'www.amazon.com', 0, '', ()),
     ('smile.amazon.com', 'www.amazon.com', 0, '', ()),
     ('m.amazon.com', 'www.amazon.com', 0, '', ()),
     ('amazon.ae', 'www.amazon.ae', 0, '', ()),
     ('smile.amazon.ae', 'www.amazon.ae', 0, '', ()),
     ('m.amazon.ae', 'www.amazon.ae', 0, '', ()),
     ('amazon.ca', 'www.amazon.ca', 0, '', ()),
     ('smile.amazon.ca', 'www.amazon.ca', 0, '', ()),
     ('m.amazon.ca', 'www.amazon.ca', 0, '', ()),
     ('amazon.cn', 'www.amazon.cn', 0, '', ()),
     ('smile.amazon.cn', 'www.amazon.cn', 0, '', ()),
     ('m.amazon.cn', 'www.amazon.cn', 0, '', ()),
     ('amazon.co.jp', 'www.amazon.co.jp', 0, '', ()),
     ('smile.amazon.co.jp', 'www.amazon.co.jp', 0, '', ()),
     ('m.amazon.co.jp', 'www.amazon.co.jp', 0, '', ()),
     ('amazon.co.uk', 'www.amazon.co.uk', 0, '', ()),
     ('smile.amazon.co.uk', 'www.amazon.co.uk', 0, '', ()),
     ('m.amazon.co.uk', 'www.amazon.co.uk', 0, '', ()),
     ('amazon.co.za', 'www.amazon.co.za', 0, '', ()),
     ('smile.amazon.co.za', 'www.amazon.co.za', 0, '', ()),
     ('m.amazon.co.za', 'www.amazon.co.za', 0, '', ()),
     ('amazon.com.au', 'www.amazon.com.au', 0, '', ()),
     ('smile.amazon.com.au', 'www.amazon.com.au', 0, '', ()),
     ('m.amazon.com.au', 'www.amazon.com.au', 0, '', ()),
     ('amazon.com.be', 'www.amazon.com.be', 0, '', ()),
     ('smile.amazon.com.be', 'www.amazon.com.be', 0, '', ()),
     ('m.amazon.com.be', 'www.amazon.com.be', 0, '', ()),
     ('amazon.com.br', 'www.amazon.com.br', 0, '', ()),
     ('smile.amazon.com.br', 'www.amazon.com.br', 0, '', ()),
     ('m.amazon.com.br', 'www.amazon.com.br', 0, '', ()),
     ('amazon.com.mx', 'www.amazon.com.mx', 0, '', ()),
     ('smile.amazon.com.mx', 'www.amazon.com.mx', 0, '', ()),
     ('m.amazon.com.mx', 'www.amazon.com.mx', 0, '', ()),
     ('amazon.com.tr', 'www.amazon.com.tr', 0, '', ()),
     ('smile.amazon.com.tr', 'www.amazon.com.tr', 0, '', ()),
     ('m.amazon.com.tr', 'www.amazon.com.tr', 0, '', ()),
     ('amazon.de', 'www.amazon.de', 0, '', ()),
     ('smile.amazon.de', 'www.amazon.de', 0, '', ()),
     ('m.amazon.de', 'www.amazon.de', 0, '', ()),
     ('amazon.eg', 'www.amazon.eg', 0, '', ()),
     ('smile.amazon.eg', 'www.amazon.eg', 0, '', ()),
     ('m.amazon.eg', 'www.amazon.eg', 0, '', ()),
     ('amazon.es', 'www.amazon.es', 0, '', ()),
     ('smile.amazon.es', 'www.amazon.es', 0, '', ()),
     ('m.amazon.es', 'www.amazon.es', 0, '', ()),
     ('amazon.fr', 'www.amazon.fr', 0, '', ()),
     ('smile.amazon.fr', 'www.amazon.fr', 0, '', ()),
     ('m.amazon.fr', 'www.amazon.fr', 0, '', ()),
     ('amazon.ie', 'www.amazon.ie', 0, '', ()),
     ('smile.amazon.ie', 'www.amazon.ie', 0, '', ()),
     ('m.amazon.ie', 'www.amazon.ie', 0, '', ()),
     ('amazon.in', 'www.amazon.in', 0, '', ()),
     ('smile.amazon.in', 'www.amazon.in', 0, '', ()),
     ('m.amazon.in', 'www.amazon.in', 0, '', ()),
     ('amazon.it', 'www.amazon.it', 0, '', ()),
     ('smile.amazon.it', 'www.amazon.it', 0, '', ()),
     ('m.amazon.it', 'www.amazon.it', 0, '', ()),
     ('amazon.nl', 'www.amazon.nl', 0, '', ()),
     ('smile.amazon.nl', 'www.amazon.nl', 0, '', ()),
     ('m.amazon.nl', 'www.amazon.nl', 0, '', ()),
     ('amazon.pl', 'www.amazon.pl', 0, '', ()),
     ('smile.amazon.pl', 'www.amazon.pl', 0, '', ()),
     ('m.amazon.pl', 'www.amazon.pl', 0, '', ()),
     ('amazon.sa', 'www.amazon.sa', 0, '', ()),
     ('smile.amazon.sa', 'www.amazon.sa', 0, '', ()),
     ('m.amazon.sa', 'www.amazon.sa', 0, '', ()),
     ('amazon.se', 'www.amazon.se', 0, '', ()),
     ('smile.amazon.se', 'www.amazon.se', 0, '', ()),
     ('m.amazon.se', 'www.amazon.se', 0, '', ()),
     ('amazon.sg', 'www.amazon.sg', 0, '', ()),
     ('smile.amazon.sg', 'www.amazon.sg', 0, '', ()),
     ('m.amazon.sg', 'www.amazon.sg', 0, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': (
     '__mk_*', '_encoding', 'adgrpid', 'asc_campaign', 'asc_refurl', 'asc_source', 'ascsubtag',
     'associatetag', 'camp', 'creative', 'creativeasin', 'crid', 'dchild', 'dib', 'dib_tag', 'hvadid',
     'hvbmt', 'hvdev', 'hvdvcmdl', 'hvlocint', 'hvlocphy', 'hvnetw', 'hvpone', 'hvpos', 'hvptwo', 'hvqmt',
     'hvrand', 'hvtargid', 'hydadcr', 'ie', 'linkcode', 'linkid', 'pd_rd_*', 'pf_rd_*', 'qid', 'ref', 'ref_',
     'refrid', 'sprefix', 'tag',
    ),
    'pages': (
     {
      'path': (
       '/dp/{id:code:10}', '/gp/product/{id:code:10}', '/gp/aw/d/{id:code:10}', '/o/ASIN/{id:code:10}',
       '/exec/obidos/ASIN/{id:code:10}', '/exec/obidos/tg/detail/-/{id:code:10}',
      ),
      'write': '/dp/{id}',
      'keep': ('m', 'smid'),
     },
     {
      'path': (
       '/{a}/dp/{id:code:10}', '/dp/{id:code:10}/ref={a}', '/gp/product/{id:code:10}/ref={a}',
       '/gp/aw/d/{id:code:10}/ref={a}', '/-/{a}/dp/{id:code:10}', '/-/{a}/gp/product/{id:code:10}',
       '/o/ASIN/{id:code:10}/{a}', '/exec/obidos/ASIN/{id:code:10}/{a}',
       '/exec/obidos/tg/detail/-/{id:code:10}/{a}',
      ),
      'write': '/dp/{id}',
      'keep': ('m', 'smid'),
     },
     {
      'path': (
       '/{a}/dp/{id:code:10}/ref={b}', '/-/{a}/{b}/dp/{id:code:10}', '/-/{a}/dp/{id:code:10}/ref={b}',
       '/-/{a}/gp/product/{id:code:10}/ref={b}', '/dp/{id:code:10}/ref={a}/{b}',
       '/gp/product/{id:code:10}/ref={a}/{b}',
      ),
      'write': '/dp/{id}',
      'keep': ('m', 'smid'),
     },
     {
      'path': ('/-/{a}/{b}/dp/{id:code:10}/ref={c}', '/{a}/dp/{id:code:10}/ref={b}/{c}'),
      'write': '/dp/{id}',
      'keep': ('m', 'smid'),
     },
     {
      'path': ('/{a}/product-reviews/{id:code:10}', '/product-reviews/{id:code:10}/ref={a}'),
      'write': '/product-reviews/{id}',
     },
     {'path': ('/{a}/product-reviews/{id:code:10}/ref={b}',), 'write': '/product-reviews/{id}'},
     {'path': ('/{a}/b', '/b/ref={a}'), 'query': {'node': '{id:digits}'}, 'write': '/b?node={id}'},
     {'path': ('/{a}/b/ref={b}',), 'query': {'node': '{id:digits}'}, 'write': '/b?node={id}'},
     {'path': ('/s/ref={a}',), 'write': '/s'},
     {
      'path': ('/hz/wishlist/ls/{id:code}', '/registry/wishlist/{id:code}', '/gp/registry/wishlist/{id:code}'),
      'write': '/hz/wishlist/ls/{id}',
     },
     {
      'path': (
       '/hz/wishlist/ls/{id:code}/ref={a}', '/registry/wishlist/{id:code}/ref={a}',
       '/gp/registry/wishlist/{id:code}/ref={a}',
      ),
      'write': '/hz/wishlist/ls/{id}',
     },
    ),
   },
   {
    'hosts': (('amzn.com', 'amzn.com', 0, '', ()),),
    'https': True,
    'pages': (
     {
      'path': ('/{id:code:10}', '/dp/{id:code:10}'),
      'write': 'https://www.amazon.com/dp/{id}',
      'keep': ('m', 'smid'),
     },
    ),
    'written_hosts': ('www.amazon.com',),
   },
  ),
 },
 'apple@1': {
  'blocks': (
   {
    'hosts': (('apps.apple.com', 'apps.apple.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('app', 'at', 'ct', 'ls', 'mt', 'pt', 'uo'),
    'pages': (
     {
      'path': ('/{country:lower:2}/{kind=app|app-bundle|developer|story}/{slug}/id{id:digits}',),
      'write': '/{country}/{kind}/id{id}',
     },
     {'path': ('/{kind=app|app-bundle|developer|story}/{slug}/id{id:digits}',), 'write': '/{kind}/id{id}'},
    ),
   },
   {
    'hosts': (('music.apple.com', 'music.apple.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('app', 'at', 'ct', 'ls', 'mt', 'uo'),
    'pages': (
     {
      'path': (
       '/{country:lower:2}/{kind=album|artist|song|music-video}/{slug}/{id:digits}',
       '/{country:lower:2}/{kind=album|artist|song|music-video}/{slug}/id{id:digits}',
      ),
      'write': '/{country}/{kind}/{id}',
     },
     {'path': ('/{country:lower:2}/playlist/{slug}/pl.{id:id}',), 'write': '/{country}/playlist/pl.{id}'},
    ),
   },
   {
    'hosts': (('podcasts.apple.com', 'podcasts.apple.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('app', 'at', 'ct', 'ls', 'mt', 'uo'),
    'pages': ({'path': ('/{country:lower:2}/podcast/{slug}/id{id:digits}',), 'write': '/{country}/podcast/id{id}'},),
   },
   {
    'hosts': (('books.apple.com', 'books.apple.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('app', 'at', 'ct', 'ls', 'mt', 'uo'),
    'pages': (
     {
      'path': ('/{country:lower:2}/{kind=book|audiobook}/{slug}/id{id:digits}',),
      'write': '/{country}/{kind}/id{id}',
     },
    ),
   },
   {
    'hosts': (('itunes.apple.com', 'itunes.apple.com', 0, '', ()),),
    'https': True,
    'drop': ('app', 'at', 'ct', 'ls', 'mt', 'uo'),
    'pages': (
     {
      'path': ('/{country:lower:2}/app/{slug}/id{id:digits}',),
      'write': 'https://apps.apple.com/{country}/app/id{id}',
     },
     {
      'path': ('/{country:lower:2}/app/id{id:digits}',),
      'write': 'https://apps.apple.com/{country}/app/id{id}',
     },
     {
      'path': ('/{country:lower:2}/{kind=album|artist}/{slug}/id{id:digits}',),
      'write': 'https://music.apple.com/{country}/{kind}/{id}',
     },
     {
      'path': ('/{country:lower:2}/podcast/{slug}/id{id:digits}',),
      'write': 'https://podcasts.apple.com/{country}/podcast/id{id}',
     },
     {
      'path': ('/{country:lower:2}/podcast/id{id:digits}',),
      'write': 'https://podcasts.apple.com/{country}/podcast/id{id}',
     },
    ),
    'written_hosts': ('apps.apple.com', 'music.apple.com', 'podcasts.apple.com'),
   },
  ),
 },
 'archivetoday@1': {
  'blocks': (
   {
    'hosts': (
     ('archive.today', 'archive.today', 0, '', ()),
     ('archive.fo', 'archive.today', 0, '', ()),
     ('archive.is', 'archive.today', 0, '', ()),
     ('archive.li', 'archive.today', 0, '', ()),
     ('archive.md', 'archive.today', 0, '', ()),
     ('archive.ph', 'archive.today', 0, '', ()),
     ('archive.vn', 'archive.today', 0, '', ()),
    ),
    'https': True,
    'pages': ({'path': ('/{id:alnum:4-6}',), 'write': '/{id}'}, {'path': ('/{when}/{rest+}',), 'whole': True}),
   },
  ),
 },
 'arxiv@1': {
  'blocks': (
   {
    'hosts': (
     ('arxiv.org', 'arxiv.org', 0, '', ()),
     ('export.arxiv.org', 'arxiv.org', 1, '', ()),
     ('xxx.lanl.gov', 'arxiv.org', 2, '', ()),
     ('lanl.arxiv.org', 'arxiv.org', 3, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/abs/{id:name}',), 'groups': (0, 1, 2, 3), 'write': '/abs/{id}', 'drop': ('context',)},
     {
      'path': ('/abs/{archive:name}/{id:alnum}',),
      'groups': (0, 1, 2, 3),
      'write': '/abs/{archive}/{id}',
      'drop': ('context',),
     },
     {
      'path': ('/pdf/{month:digits}.{number:alnum}', '/pdf/{month:digits}.{number:alnum}.pdf'),
      'groups': (0, 1, 2, 3),
      'write': '/pdf/{month}.{number}',
     },
     {
      'path': ('/pdf/{archive:name}/{id:alnum}', '/pdf/{archive:name}/{id:alnum}.pdf'),
      'groups': (0, 1, 2, 3),
      'write': '/pdf/{archive}/{id}',
     },
    ),
   },
  ),
 },
 'bbc@1': {
  'blocks': (
   {
    'hosts': (
     ('bbc.com', 'www.bbc.com', 0, '', ()),
     ('bbc.co.uk', 'www.bbc.com', 1, '', ()),
     ('m.bbc.co.uk', 'www.bbc.com', 2, '', ()),
     ('m.bbc.com', 'www.bbc.com', 3, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': (
     'at_*', 'intlink_from_url', 'link_location', 'ns_campaign', 'ns_fee', 'ns_linkname', 'ns_mchannel',
     'ns_source',
    ),
    'pages': (
     {
      'path': ('/{section=news|sport}/articles/{id:base36}.amp',),
      'groups': (0, 1, 2, 3),
      'write': '/{section}/articles/{id}',
     },
     {'path': ('/news/amp/{id:label}',), 'groups': (0, 1, 2, 3), 'write': '/news/{id}'},
     {
      'path': ('/{section=news|sport}/{rest+}',),
      'groups': (0, 1, 2, 3),
      'drop': (
       'at_*', 'intlink_from_url', 'link_location', 'ns_campaign', 'ns_fee', 'ns_linkname', 'ns_mchannel',
       'ns_source',
      ),
     },
    ),
   },
  ),
 },
 'bilibili@1': {
  'blocks': (
   {
    'hosts': (
     ('bilibili.com', 'www.bilibili.com', 0, '', ()),
     ('m.bilibili.com', 'www.bilibili.com', 0, '', ()),
     ('b23.tv', 'www.bilibili.com', 1, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': (
     'bbid', 'broadcast_type', 'bsource', 'buvid', 'csource', 'from', 'from_source', 'from_spm_id',
     'from_spmid', 'hotrank', 'is_story_h5', 'launch_id', 'live_from', 'msource', 'plat_id', 'refer_from',
     'seid', 'share_*', 'spm_id_from', 'spmid', 'timestamp', 'track_id', 'trackid', 'unique_k', 'vd_source',
    ),
    'pages': (
     {
      'path': ('/video/BV{id:alnum:10}',),
      'write': '/video/BV{id}',
      'keep': ('p', 't'),
      'defaults': {'p': ('1',)},
     },
     {
      'path': ('/video/av{id:digits}',),
      'write': '/video/av{id}',
      'keep': ('p', 't'),
      'defaults': {'p': ('1',)},
     },
     {
      'path': ('/BV{id:alnum:10}',),
      'groups': (1,),
      'write': '/video/BV{id}',
      'keep': ('p', 't'),
      'defaults': {'p': ('1',)},
     },
     {'path': ('/bangumi/play/{id:base36}', '/read/{id:base36}', '/opus/{id:base36}'), 'keep': ('t',)},
     {'path': ('/space/{id:digits}',), 'write': 'https://space.bilibili.com/{id}', 'keep': ()},
    ),
    'written_hosts': ('space.bilibili.com',),
   },
   {
    'hosts': (('space.bilibili.com', 'space.bilibili.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': (
     'from', 'from_source', 'from_spmid', 'seid', 'share_*', 'spm_id_from', 'timestamp', 'unique_k',
     'vd_source',
    ),
   },
   {
    'hosts': (('live.bilibili.com', 'live.bilibili.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': (
     'bbid', 'broadcast_type', 'from', 'from_source', 'from_spmid', 'hotrank', 'is_room_feed', 'launch_id',
     'live_from', 'plat_id', 'session_id', 'share_*', 'spm_id_from', 'timestamp', 'unique_k', 'vd_source',
     'visit_id',
    ),
    'pages': ({'path': ('/{id:digits}', '/h5/{id:digits}'), 'write': '/{id}'},),
   },
   {
    'hosts': (('t.bilibili.com', 't.bilibili.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('from', 'from_source', 'from_spmid', 'share_*', 'spm_id_from', 'timestamp', 'unique_k', 'vd_source'),
   },
  ),
 },
 'bing@1': {
  'blocks': (
   {
    'hosts': (('bing.com', 'www.bing.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/search',),
      'drop': (
       'cvid', 'form', 'ghacc', 'ghc', 'ghpl', 'ghsh', 'lq', 'ntref', 'pc', 'pq', 'qs', 'redig', 'refig',
       'sc', 'sk', 'sp', 'towww',
      ),
     },
     {
      'path': ('/{kind=images|videos|news}/search',),
      'drop': (
       'cvid', 'form', 'ghacc', 'ghc', 'ghpl', 'ghsh', 'lq', 'ntref', 'pc', 'pq', 'qs', 'redig', 'refig',
       'sc', 'sk', 'sp', 'towww',
      ),
     },
     {'path': ('/news/apiclick.aspx',), 'query': {'url': '{url}'}, 'target': '{url|decode}'},
     {'path': ('/ck/a',), 'query': {'u': 'a1{url:id}'}, 'target': '{url|base64}'},
    ),
   },
  ),
 },
 'biorxiv@1': {
  'blocks': (
   {
    'hosts': (('biorxiv.org', 'www.biorxiv.org', 0, '', ()), ('medrxiv.org', 'www.medrxiv.org', 0, '', ())),
    'https': True,
    'slash': 'strip',
    'drop': ('rss',),
   },
  ),
 },
 'blogger@2': {
  'blocks': (
   {
    'hosts': (
     ('*.blogspot.com', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.ae', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.al', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.am', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.ba', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.be', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.bg', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.bj', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.ca', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.cat', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.cf', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.ch', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.cl', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.co.at', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.co.id', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.co.il', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.co.ke', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.co.nz', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.co.uk', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.co.za', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.com.ar', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.com.au', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.com.br', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.com.by', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.com.co', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.com.cy', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.com.ee', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.com.eg', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.com.es', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.com.mt', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.com.ng', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.com.tr', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.com.uy', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.cv', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.cz', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.de', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.dk', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.es', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.fi', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.fr', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.gr', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.hk', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.hr', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.hu', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.ie', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.in', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.is', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.it', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.jp', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.kr', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.li', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.lt', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.lu', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.md', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.mk', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.mr', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.mx', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.my', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.nl', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.no', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.pe', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.pt', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.qa', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.re', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.ro', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.rs', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.ru', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.se', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.sg', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.si', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.sk', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.sn', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.td', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.tw', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.ug', '*.blogspot.com', 0, '', ('www',)),
     ('*.blogspot.vn', '*.blogspot.com', 0, '', ('www',)),
    ),
    'https': True,
    'drop': ('m', 'spref'),
    'pages': (
     {
      'path': ('/rss.xml',),
      'write': '/feeds/posts/default?alt=rss',
      'drop': ('max-results', 'orderby', 'redirect', 'v'),
      'defaults': {'alt': ('atom', 'json')},
     },
     {
      'path': ('/atom.xml',),
      'write': '/feeds/posts/default',
      'drop': ('max-results', 'orderby', 'redirect', 'v'),
      'defaults': {'alt': ('atom', 'json')},
     },
     {
      'path': ('/feeds/{rest+}',),
      'write': '/feeds/{rest}',
      'drop': ('max-results', 'orderby', 'redirect', 'v'),
      'defaults': {'alt': ('atom', 'json')},
     },
    ),
   },
  ),
 },
 'bloomberg@1': {
  'blocks': (
   {
    'hosts': (('bloomberg.com', 'www.bloomberg.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('embedded-checkout', 'in_source', 'leadsource', 'sref', 'srnd'),
    'pages': ({'path': ('/amp/news/{rest+}',), 'write': '/news/{rest}'},),
   },
  ),
 },
 'bluesky@1': {
  'blocks': (
   {
    'hosts': (('bsky.app', 'bsky.app', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('ref_src', 'ref_url'),
    'pages': (
     {'path': ('/profile/{handle:name}',), 'write': '/profile/{handle|lower}'},
     {'path': ('/profile/{handle:name}/{rest+}',), 'write': '/profile/{handle|lower}/{rest}'},
    ),
   },
  ),
 },
 'booking@1': {
  'blocks': (
   {
    'hosts': (('booking.com', 'www.booking.com', 0, '', ()), ('m.booking.com', 'www.booking.com', 0, '', ())),
    'https': True,
    'slash': 'strip',
    'drop': (
     'aid', 'all_sr_blocks', 'arphpl', 'hapos', 'highlighted_blocks', 'hpos', 'label', 'matching_block_id',
     'sb_price_type', 'sid', 'sr_order', 'sr_pri_blocks', 'srepoch', 'srpvid', 'ucfs',
    ),
    'pages': (
     {
      'path': (
       '/hotel/{country:lower:2}/{name:id}.{language=ar|bg|ca|cs|da|de|el|en-gb|en-us|es|es-ar|es-mx|et|fi|fr|he|hr|hu|id|is|it|ja|ko|lt|lv|ms|nl|no|pl|pt-br|pt-pt|ro|ru|sk|sl|sr|sv|th|tr|uk|vi|zh-cn|zh-tw}.html',
      ),
      'write': '/hotel/{country}/{name}.html',
     },
    ),
   },
  ),
 },
 'chats@1': {
  'blocks': (
   {
    'hosts': (('t.me', 't.me', 0, '', ()), ('telegram.me', 't.me', 0, '', ()), ('telegram.dog', 't.me', 0, '', ())),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/{name:word}/{id:digits}',), 'not': {'name': ('c',)}, 'write': '/{name|lower}/{id}'},
     {'path': ('/joinchat/{code:id}', '/+{code:id}'), 'write': '/+{code}'},
    ),
   },
   {
    'hosts': (
     ('discord.com', 'discord.com', 0, '', ()),
     ('discordapp.com', 'discord.com', 0, '', ()),
     ('canary.discord.com', 'discord.com', 0, '', ()),
     ('ptb.discord.com', 'discord.com', 0, '', ()),
     ('discord.gg', 'discord.com', 1, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/invite/{code:id}',), 'write': '/invite/{code}'},
     {'path': ('/{code:id}',), 'groups': (1,), 'write': '/invite/{code}'},
    ),
   },
   {
    'hosts': (('wa.me', 'wa.me', 0, '', ()), ('api.whatsapp.com', 'wa.me', 1, '', ())),
    'https': True,
    'slash': 'strip',
    'pages': ({'path': ('/send',), 'query': {'phone': '{phone:digits}'}, 'groups': (1,), 'write': '/{phone}'},),
   },
  ),
 },
 'chromewebstore@1': {
  'blocks': (
   {
    'hosts': (
     ('chromewebstore.google.com', 'chromewebstore.google.com', 0, '', ()),
     ('chrome.google.com', 'chromewebstore.google.com', 1, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': ('authuser', 'pli'),
    'pages': (
     {'path': ('/detail/{slug}/{id:lower:32}',), 'write': '/detail/{id}'},
     {'path': ('/webstore/detail/{id:lower:32}',), 'groups': (1,), 'write': '/detail/{id}'},
     {'path': ('/webstore/detail/{slug}/{id:lower:32}',), 'groups': (1,), 'write': '/detail/{id}'},
    ),
   },
  ),
 },
 'cnn@1': {
  'blocks': (
   {
    'hosts': (
     ('cnn.com', 'www.cnn.com', 0, '', ()),
     ('edition.cnn.com', 'www.cnn.com', 1, '', ()),
     ('us.cnn.com', 'www.cnn.com', 2, '', ()),
     ('amp.cnn.com', 'www.cnn.com', 3, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': ('hpt', 'iref'),
    'pages': (
     {
      'path': (
       '/{year:digits:4}/{month:digits:2}/{day:digits:2}/{section:id}/{slug:id}',
       '/{year:digits:4}/{month:digits:2}/{day:digits:2}/{section:id}/{slug:id}/index.html',
      ),
      'groups': (0, 1, 2),
      'write': '/{year}/{month}/{day}/{section}/{slug}',
     },
     {
      'path': (
       '/cnn/{year:digits:4}/{month:digits:2}/{day:digits:2}/{section:id}/{slug:id}',
       '/cnn/{year:digits:4}/{month:digits:2}/{day:digits:2}/{section:id}/{slug:id}/index.html',
      ),
      'groups': (3,),
      'write': '/{year}/{month}/{day}/{section}/{slug}',
     },
     {
      'path': (
       '/{section:id}/{kind=article|live-news}/{slug:id}',
       '/{section:id}/{kind=article|live-news}/{slug:id}/index.html',
      ),
      'groups': (0, 1, 2),
      'write': '/{section}/{kind}/{slug}',
     },
    ),
   },
  ),
 },
 'crates@1': {
  'blocks': (
   {
    'hosts': (('crates.io', 'crates.io', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/crates/{name:id}',), 'write': '/crates/{name|lower|dashes}'},
     {'path': ('/crates/{name:id}/{rest+}',), 'write': '/crates/{name|lower|dashes}/{rest}'},
    ),
   },
  ),
 },
 'dailymotion@1': {
  'blocks': (
   {
    'hosts': (
     ('dailymotion.com', 'www.dailymotion.com', 0, '', ()),
     ('dai.ly', 'www.dailymotion.com', 1, '', ()),
     ('geo.dailymotion.com', 'www.dailymotion.com', 2, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/video/{id:alnum}', '/embed/video/{id:alnum}'),
      'write': '/video/{id}',
      'keep': ('playlist', 'start'),
     },
     {'path': ('/video/{id:alnum}_{slug}',), 'write': '/video/{id}', 'keep': ('playlist', 'start')},
     {'path': ('/{id:alnum}',), 'groups': (1,), 'write': '/video/{id}', 'keep': ('playlist', 'start')},
     {
      'path': ('/player.html',),
      'query': {'video': '{id:alnum}'},
      'groups': (2,),
      'write': '/video/{id}',
      'keep': ('playlist', 'start'),
     },
    ),
   },
  ),
 },
 'developers@1': {
  'blocks': (
   {
    'hosts': (
     ('datatracker.ietf.org', 'datatracker.ietf.org', 0, '', ()),
     ('tools.ietf.org', 'datatracker.ietf.org', 1, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': ({'path': ('/html/{id:name}',), 'groups': (1,), 'write': '/doc/html/{id}'},),
   },
   {
    'hosts': (('bugs.debian.org', 'bugs.debian.org', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/cgi-bin/bugreport.cgi',),
      'query': {'bug': '{id:digits}'},
      'no_other_params': True,
      'write': '/{id}',
     },
    ),
   },
   {
    'hosts': (
     ('bugzilla.mozilla.org', 'bugzilla.mozilla.org', 0, '', ()),
     ('bugzil.la', 'bugzilla.mozilla.org', 1, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/show_bug.cgi',), 'query': {'id': '{id:digits}'}, 'write': '/show_bug.cgi?id={id}'},
     {'path': ('/{id:digits}',), 'groups': (1,), 'write': '/show_bug.cgi?id={id}'},
    ),
   },
   {
    'hosts': (('pkg.go.dev', 'pkg.go.dev', 0, '', ()), ('godoc.org', 'pkg.go.dev', 0, '', ())),
    'https': True,
    'slash': 'strip',
   },
  ),
 },
 'discogs@1': {
  'blocks': (
   {
    'hosts': (('discogs.com', 'www.discogs.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/{kind=release|master|artist|label}/{id:digits}-{slug}',), 'write': '/{kind}/{id}'},
     {
      'path': ('/{language=de|es|fr|it|ja|ko|pt_BR|ru}/{kind=release|master|artist|label}/{id:digits}-{slug}',),
      'write': '/{kind}/{id}',
     },
     {
      'path': ('/{language=de|es|fr|it|ja|ko|pt_BR|ru}/{kind=release|master|artist|label}/{id:digits}',),
      'write': '/{kind}/{id}',
     },
     {'path': ('/{artist:alnum}-{title}/{kind=release|master}/{id:digits}',), 'write': '/{kind}/{id}'},
    ),
   },
  ),
 },
 'documents@1': {
  'blocks': (
   {
    'hosts': (
     ('scribd.com', 'www.scribd.com', 0, '', ()),
     ('*.scribd.com', 'www.scribd.com', 1, '{language:lower:2}', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/document/{id:digits}', '/doc/{id:digits}'), 'groups': (0, 1), 'write': '/document/{id}'},
     {
      'path': ('/document/{id:digits}/{slug}', '/doc/{id:digits}/{slug}'),
      'groups': (0, 1),
      'write': '/document/{id}',
     },
    ),
   },
   {
    'hosts': (('figma.com', 'www.figma.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/design/{id:alnum}/{slug}', '/file/{id:alnum}/{slug}'),
      'not': {'slug': ('branch', 'duplicate')},
      'write': '/design/{id}',
      'drop': ('t',),
     },
     {'path': ('/design/{id:alnum}', '/file/{id:alnum}'), 'write': '/design/{id}', 'drop': ('t',)},
    ),
   },
   {
    'hosts': (('patreon.com', 'www.patreon.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': ({'path': ('/posts/{slug}-{id:digits}',), 'write': '/posts/{id}'},),
   },
   {
    'hosts': (('dropbox.com', 'www.dropbox.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'defaults': {'dl': ('0',)},
   },
  ),
 },
 'doi@1': {
  'blocks': (
   {
    'hosts': (('doi.org', 'doi.org', 0, '', ()), ('dx.doi.org', 'doi.org', 0, '', ())),
    'https': True,
    'pages': (
     {
      'path': ('/10.{prefix:name}/{suffix+}', '/doi:10.{prefix:name}/{suffix+}'),
      'ignore_case': True,
      'write': '/10.{prefix}/{suffix|unescape|lower}',
     },
    ),
   },
  ),
 },
 'duckduckgo@1': {
  'blocks': (
   {
    'hosts': (
     ('duckduckgo.com', 'duckduckgo.com', 0, '', ()),
     ('html.duckduckgo.com', 'duckduckgo.com', 1, '', ()),
     ('lite.duckduckgo.com', 'duckduckgo.com', 2, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/l',), 'query': {'uddg': '{url}'}, 'groups': (0, 1, 2), 'target': '{url|decode}'},
     {'path': ('/',), 'drop': ('atb', 'hps', 't'), 'defaults': {'ia': ('web',)}},
    ),
   },
  ),
 },
 'ebay@1': {
  'blocks': (
   {
    'hosts': (
     ('ebay.com', 'www.ebay.com', 0, '', ()),
     ('m.ebay.com', 'www.ebay.com', 0, '', ()),
     ('ebay.at', 'www.ebay.at', 0, '', ()),
     ('m.ebay.at', 'www.ebay.at', 0, '', ()),
     ('ebay.be', 'www.ebay.be', 0, '', ()),
     ('m.ebay.be', 'www.ebay.be', 0, '', ()),
     ('ebay.ca', 'www.ebay.ca', 0, '', ()),
     ('m.ebay.ca', 'www.ebay.ca', 0, '', ()),
     ('ebay.ch', 'www.ebay.ch', 0, '', ()),
     ('m.ebay.ch', 'www.ebay.ch', 0, '', ()),
     ('ebay.co.uk', 'www.ebay.co.uk', 0, '', ()),
     ('m.ebay.co.uk', 'www.ebay.co.uk', 0, '', ()),
     ('ebay.com.au', 'www.ebay.com.au', 0, '', ()),
     ('m.ebay.com.au', 'www.ebay.com.au', 0, '', ()),
     ('ebay.com.hk', 'www.ebay.com.hk', 0, '', ()),
     ('m.ebay.com.hk', 'www.ebay.com.hk', 0, '', ()),
     ('ebay.com.my', 'www.ebay.com.my', 0, '', ()),
     ('m.ebay.com.my', 'www.ebay.com.my', 0, '', ()),
     ('ebay.com.sg', 'www.ebay.com.sg', 0, '', ()),
     ('m.ebay.com.sg', 'www.ebay.com.sg', 0, '', ()),
     ('ebay.de', 'www.ebay.de', 0, '', ()),
     ('m.ebay.de', 'www.ebay.de', 0, '', ()),
     ('ebay.es', 'www.ebay.es', 0, '', ()),
     ('m.ebay.es', 'www.ebay.es', 0, '', ()),
     ('ebay.fr', 'www.ebay.fr', 0, '', ()),
     ('m.ebay.fr', 'www.ebay.fr', 0, '', ()),
     ('ebay.ie', 'www.ebay.ie', 0, '', ()),
     ('m.ebay.ie', 'www.ebay.ie', 0, '', ()),
     ('ebay.it', 'www.ebay.it', 0, '', ()),
     ('m.ebay.it', 'www.ebay.it', 0, '', ()),
     ('ebay.nl', 'www.ebay.nl', 0, '', ()),
     ('m.ebay.nl', 'www.ebay.nl', 0, '', ()),
     ('ebay.ph', 'www.ebay.ph', 0, '', ()),
     ('m.ebay.ph', 'www.ebay.ph', 0, '', ()),
     ('ebay.pl', 'www.ebay.pl', 0, '', ()),
     ('m.ebay.pl', 'www.ebay.pl', 0, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': ('_from', '_trkparms', '_trksid', 'campid', 'customid', 'mkcid', 'mkevt', 'mkrid', 'sspagename', 'toolid'),
    'pages': (
     {'path': ('/itm/{id:digits}',), 'write': '/itm/{id}', 'keep': ('var',)},
     {'path': ('/itm/{slug}/{id:digits}',), 'write': '/itm/{id}', 'keep': ('var',)},
    ),
   },
   {
    'hosts': (('rover.ebay.com', 'rover.ebay.com', 0, '', ()),),
    'https': True,
    'pages': ({'path': ('/rover/{rest+}',), 'query': {'mpre': '{url}'}, 'target': '{url|decode}'},),
   },
  ),
 },
 'etsy@1': {
  'blocks': (
   {
    'hosts': (('etsy.com', 'www.etsy.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('click_key', 'click_sum', 'ref'),
    'pages': (
     {'path': ('/listing/{id:digits}',), 'write': '/listing/{id}', 'keep': ('variation0', 'variation1')},
     {
      'path': ('/listing/{id:digits}/{a}', '/{a:label:2-5}/listing/{id:digits}'),
      'write': '/listing/{id}',
      'keep': ('variation0', 'variation1'),
     },
     {
      'path': ('/{a:label:2-5}/listing/{id:digits}/{b}',),
      'write': '/listing/{id}',
      'keep': ('variation0', 'variation1'),
     },
    ),
   },
  ),
 },
 'exceptions@1': {
  'blocks': (
   {
    'hosts': (
     ('univis.fau.de', '', 0, '', ()),
     ('univis.uni-bamberg.de', '', 0, '', ()),
     ('univis.uni-erlangen.de', '', 0, '', ()),
     ('univis.uni-kiel.de', '', 0, '', ()),
     ('univis.uni-jena.de', '', 0, '', ()),
     ('univis.uni-freiburg.de', '', 0, '', ()),
    ),
    'needs': ('__s',),
   },
   {'hosts': (('greenbuildingadvisor.com', '', 0, '', ()),), 'needs': ('oly_enc_id',)},
   {'hosts': (('transfernow.net', '', 0, '', ()),), 'needs': ('utm_source',)},
  ),
 },
 'facebook@1': {
  'blocks': (
   {
    'hosts': (
     ('facebook.com', 'www.facebook.com', 0, '', ()),
     ('m.facebook.com', 'www.facebook.com', 0, '', ()),
     ('mbasic.facebook.com', 'www.facebook.com', 0, '', ()),
     ('touch.facebook.com', 'www.facebook.com', 0, '', ()),
     ('web.facebook.com', 'www.facebook.com', 0, '', ()),
     ('fb.com', 'www.facebook.com', 0, '', ()),
     (
      '*.facebook.com',
      'www.facebook.com',
      0,
      '{language=ar-ar|bg-bg|ca-es|cs-cz|da-dk|de-de|el-gr|en-gb|es-es|es-la|fi-fi|fr-ca|fr-fr|he-il|hi-in|hr-hr|hu-hu|id-id|it-it|ja-jp|ko-kr|ms-my|nb-no|nl-nl|pl-pl|pt-br|pt-pt|ro-ro|ru-ru|sk-sk|sl-si|sr-rs|sv-se|th-th|tr-tr|uk-ua|vi-vn|zh-cn|zh-hk|zh-tw}',
      (),
     ),
     ('l.facebook.com', 'www.facebook.com', 1, '', ()),
     ('lm.facebook.com', 'www.facebook.com', 2, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': (
     '__cft__*', '__rv__', '__so__', '__tn__', '__xts__*', '_ft_', '_rdc', '_rdr', 'acontext', 'eav', 'extid',
     'fref', 'hc_location', 'hc_ref', 'idorvanity', 'mibextid', 'notif_id', 'notif_t', 'paipv', 'rdid', 'ref',
     'refid', 'refsrc', 'sfnsn', 'share_url', 'wtsid',
    ),
    'pages': (
     {'path': ('/l.php',), 'query': {'u': '{url}'}, 'groups': (0, 1, 2), 'target': '{url|decode}'},
     {
      'path': ('/permalink.php', '/story.php'),
      'query': {'story_fbid': '{story:alnum}', 'id': '{owner:digits}'},
      'ignore_case': True,
      'write': '/permalink.php?story_fbid={story}&id={owner}',
     },
     {
      'path': ('/groups/{group:name}/posts/{id:alnum}', '/groups/{group:name}/permalink/{id:alnum}'),
      'ignore_case': True,
      'write': '/groups/{group|lower}/posts/{id}',
     },
     {
      'path': ('/groups/{group:name}',),
      'query': {'view': 'permalink', 'id': '{id:digits}'},
      'ignore_case': True,
      'write': '/groups/{group|lower}/posts/{id}',
     },
     {'path': ('/{user:name}/posts/{id:alnum}',), 'ignore_case': True, 'write': '/{user|lower}/posts/{id}'},
     {
      'path': ('/{user:name}/posts/{slug}/{id:digits}',),
      'ignore_case': True,
      'write': '/{user|lower}/posts/{id}',
     },
     {
      'path': ('/watch', '/video.php'),
      'query': {'v': '{id:digits}'},
      'ignore_case': True,
      'write': '/watch?v={id}',
     },
     {'path': ('/{user:name}/videos/{id:digits}',), 'ignore_case': True, 'write': '/watch?v={id}'},
     {'path': ('/{user:name}/videos/{slug}/{id:digits}',), 'ignore_case': True, 'write': '/watch?v={id}'},
     {
      'path': ('/photo', '/photo.php'),
      'query': {'fbid': '{id:digits}'},
      'ignore_case': True,
      'write': '/photo?fbid={id}',
      'drop': ('set', 'theater', 'type'),
     },
     {
      'path': ('/{user:name}/photos/{set:name}/{id:digits}',),
      'ignore_case': True,
      'write': '/photo?fbid={id}',
      'drop': ('set', 'theater', 'type'),
     },
     {'path': ('/reel/{id:digits}',), 'ignore_case': True, 'drop': ('fs', 's')},
     {'path': ('/marketplace/item/{id:digits}',), 'ignore_case': True, 'keep': ()},
     {'path': ('/{user:name}',), 'write': '/{user|lower}'},
    ),
   },
  ),
 },
 'fandom@1': {
  'blocks': (
   {
    'hosts': (
     ('*.fandom.com', '*.fandom.com', 0, '{wiki:label}', ()),
     ('*.wikia.com', '*.fandom.com', 0, '{wiki:label}', ()),
    ),
    'https': True,
    'drop': ('so',),
    'pages': ({'path': ('/wiki/{title+:text}',), 'write': '/wiki/{title|unescape|underscores|capital}'},),
   },
  ),
 },
 'feedburner@2': {
  'blocks': (
   {
    'hosts': (
     ('feeds.feedburner.com', 'feeds.feedburner.com', 0, '', ()),
     ('feeds2.feedburner.com', 'feeds.feedburner.com', 0, '', ()),
     ('feedproxy.google.com', 'feeds.feedburner.com', 0, '', ()),
    ),
    'https': True,
    'defaults': {'format': ('xml', 'XML')},
   },
  ),
 },
 'flickr@1': {
  'blocks': (
   {
    'hosts': (
     ('flickr.com', 'www.flickr.com', 0, '', ()),
     ('m.flickr.com', 'www.flickr.com', 0, '', ()),
     ('secure.flickr.com', 'www.flickr.com', 0, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/photos/{user}/{id:digits}/in/{rest+}',), 'write': '/photos/{user}/{id}'},
     {
      'path': ('/photos/{user}/albums/{id:digits}', '/photos/{user}/sets/{id:digits}'),
      'write': '/photos/{user}/albums/{id}',
     },
    ),
   },
  ),
 },
 'forbes@1': {
  'blocks': (
   {
    'hosts': (('forbes.com', 'www.forbes.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('ctpv', 'sh', 'ss', 'swb_redirect'),
    'pages': (
     {
      'path': ('/sites/{author:id}/{year:digits:4}/{month:digits:2}/{day:digits:2}/{slug}/amp',),
      'write': '/sites/{author}/{year}/{month}/{day}/{slug}',
     },
    ),
   },
  ),
 },
 'github@1': {
  'blocks': (
   {
    'hosts': (('github.com', 'github.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('email_source', 'email_token', 'notification_referrer_id', 'ref_cta', 'ref_loc', 'ref_page'),
    'pages': (
     {
      'path': ('/{owner:id}/{repo:id}.git',),
      'ignore_case': True,
      'write': '/{owner|lower}/{repo|lower}',
      'defaults': {'tab': ('readme-ov-file',)},
     },
     {
      'path': ('/{owner:id}/{repo:name}',),
      'not': {
       'owner': (
        'about', 'advisories', 'apps', 'collections', 'enterprises', 'features', 'login', 'marketplace',
        'orgs', 'search', 'settings', 'site', 'sponsors', 'stars', 'topics', 'users',
       ),
      },
      'write': '/{owner|lower}/{repo|lower}',
      'defaults': {'tab': ('readme-ov-file',)},
     },
     {
      'path': ('/{owner:id}/{repo:name}/{rest+}',),
      'not': {
       'owner': (
        'about', 'advisories', 'apps', 'collections', 'enterprises', 'features', 'login', 'marketplace',
        'orgs', 'search', 'settings', 'site', 'sponsors', 'stars', 'topics', 'users',
       ),
      },
      'write': '/{owner|lower}/{repo|lower}/{rest}',
     },
     {'path': ('/{owner:id}',), 'write': '/{owner|lower}', 'defaults': {'tab': ('overview',)}},
    ),
   },
   {
    'hosts': (('gist.github.com', 'gist.github.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/{owner:id}/{id:hex:32}', '/{owner:id}/{id:hex:20}'), 'write': '/{id}'},
     {'path': ('/{owner:id}/{id:hex:32}/{rest+}', '/{owner:id}/{id:hex:20}/{rest+}'), 'write': '/{id}/{rest}'},
    ),
   },
  ),
 },
 'gitlab@1': {
  'blocks': (
   {
    'hosts': (('gitlab.com', 'gitlab.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/{group:name}/{project:id}.git',), 'write': '/{group}/{project}'},
     {'path': ('/{group:name}/{subgroup:name}/{project:id}.git',), 'write': '/{group}/{subgroup}/{project}'},
    ),
   },
  ),
 },
 'goodreads@1': {
  'blocks': (
   {
    'hosts': (('goodreads.com', 'www.goodreads.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('ac', 'from_choice', 'from_search', 'from_srp', 'qid', 'rank', 'ref'),
    'pages': (
     {
      'path': ('/{kind=book|author|list|user|review}/show/{id:digits}', '/en/{kind=book}/show/{id:digits}'),
      'write': '/{kind}/show/{id}',
     },
     {
      'path': (
       '/{kind=book|author|list|user}/show/{id:digits}.{slug}',
       '/{kind=book|author|list|user}/show/{id:digits}-{slug}', '/en/{kind=book}/show/{id:digits}.{slug}',
       '/en/{kind=book}/show/{id:digits}-{slug}',
      ),
      'not': {'slug': ('json', 'xml')},
      'write': '/{kind}/show/{id}',
     },
     {'path': ('/series/{id:digits}-{slug}',), 'write': '/series/{id}'},
    ),
   },
  ),
 },
 'google@1': {
  'blocks': (
   {
    'hosts': (
     ('google.com', 'www.google.com', 0, '', ()),
     ('maps.google.com', 'www.google.com', 1, '', ()),
     ('google.ae', 'www.google.ae', 0, '', ()),
     ('maps.google.ae', 'www.google.ae', 1, '', ()),
     ('google.at', 'www.google.at', 0, '', ()),
     ('maps.google.at', 'www.google.at', 1, '', ()),
     ('google.be', 'www.google.be', 0, '', ()),
     ('maps.google.be', 'www.google.be', 1, '', ()),
     ('google.bg', 'www.google.bg', 0, '', ()),
     ('maps.google.bg', 'www.google.bg', 1, '', ()),
     ('google.ca', 'www.google.ca', 0, '', ()),
     ('maps.google.ca', 'www.google.ca', 1, '', ()),
     ('google.ch', 'www.google.ch', 0, '', ()),
     ('maps.google.ch', 'www.google.ch', 1, '', ()),
     ('google.cl', 'www.google.cl', 0, '', ()),
     ('maps.google.cl', 'www.google.cl', 1, '', ()),
     ('google.co.id', 'www.google.co.id', 0, '', ()),
     ('maps.google.co.id', 'www.google.co.id', 1, '', ()),
     ('google.co.il', 'www.google.co.il', 0, '', ()),
     ('maps.google.co.il', 'www.google.co.il', 1, '', ()),
     ('google.co.in', 'www.google.co.in', 0, '', ()),
     ('maps.google.co.in', 'www.google.co.in', 1, '', ()),
     ('google.co.jp', 'www.google.co.jp', 0, '', ()),
     ('maps.google.co.jp', 'www.google.co.jp', 1, '', ()),
     ('google.co.ke', 'www.google.co.ke', 0, '', ()),
     ('maps.google.co.ke', 'www.google.co.ke', 1, '', ()),
     ('google.co.kr', 'www.google.co.kr', 0, '', ()),
     ('maps.google.co.kr', 'www.google.co.kr', 1, '', ()),
     ('google.co.nz', 'www.google.co.nz', 0, '', ()),
     ('maps.google.co.nz', 'www.google.co.nz', 1, '', ()),
     ('google.co.th', 'www.google.co.th', 0, '', ()),
     ('maps.google.co.th', 'www.google.co.th', 1, '', ()),
     ('google.co.uk', 'www.google.co.uk', 0, '', ()),
     ('maps.google.co.uk', 'www.google.co.uk', 1, '', ()),
     ('google.co.ve', 'www.google.co.ve', 0, '', ()),
     ('maps.google.co.ve', 'www.google.co.ve', 1, '', ()),
     ('google.co.za', 'www.google.co.za', 0, '', ()),
     ('maps.google.co.za', 'www.google.co.za', 1, '', ()),
     ('google.com.ar', 'www.google.com.ar', 0, '', ()),
     ('maps.google.com.ar', 'www.google.com.ar', 1, '', ()),
     ('google.com.au', 'www.google.com.au', 0, '', ()),
     ('maps.google.com.au', 'www.google.com.au', 1, '', ()),
     ('google.com.bd', 'www.google.com.bd', 0, '', ()),
     ('maps.google.com.bd', 'www.google.com.bd', 1, '', ()),
     ('google.com.br', 'www.google.com.br', 0, '', ()),
     ('maps.google.com.br', 'www.google.com.br', 1, '', ()),
     ('google.com.co', 'www.google.com.co', 0, '', ()),
     ('maps.google.com.co', 'www.google.com.co', 1, '', ()),
     ('google.com.ec', 'www.google.com.ec', 0, '', ()),
     ('maps.google.com.ec', 'www.google.com.ec', 1, '', ()),
     ('google.com.eg', 'www.google.com.eg', 0, '', ()),
     ('maps.google.com.eg', 'www.google.com.eg', 1, '', ()),
     ('google.com.hk', 'www.google.com.hk', 0, '', ()),
     ('maps.google.com.hk', 'www.google.com.hk', 1, '', ()),
     ('google.com.mx', 'www.google.com.mx', 0, '', ()),
     ('maps.google.com.mx', 'www.google.com.mx', 1, '', ()),
     ('google.com.my', 'www.google.com.my', 0, '', ()),
     ('maps.google.com.my', 'www.google.com.my', 1, '', ()),
     ('google.com.ng', 'www.google.com.ng', 0, '', ()),
     ('maps.google.com.ng', 'www.google.com.ng', 1, '', ()),
     ('google.com.pe', 'www.google.com.pe', 0, '', ()),
     ('maps.google.com.pe', 'www.google.com.pe', 1, '', ()),
     ('google.com.ph', 'www.google.com.ph', 0, '', ()),
     ('maps.google.com.ph', 'www.google.com.ph', 1, '', ()),
     ('google.com.pk', 'www.google.com.pk', 0, '', ()),
     ('maps.google.com.pk', 'www.google.com.pk', 1, '', ()),
     ('google.com.sa', 'www.google.com.sa', 0, '', ()),
     ('maps.google.com.sa', 'www.google.com.sa', 1, '', ()),
     ('google.com.sg', 'www.google.com.sg', 0, '', ()),
     ('maps.google.com.sg', 'www.google.com.sg', 1, '', ()),
     ('google.com.tr', 'www.google.com.tr', 0, '', ()),
     ('maps.google.com.tr', 'www.google.com.tr', 1, '', ()),
     ('google.com.tw', 'www.google.com.tw', 0, '', ()),
     ('maps.google.com.tw', 'www.google.com.tw', 1, '', ()),
     ('google.com.ua', 'www.google.com.ua', 0, '', ()),
     ('maps.google.com.ua', 'www.google.com.ua', 1, '', ()),
     ('google.com.uy', 'www.google.com.uy', 0, '', ()),
     ('maps.google.com.uy', 'www.google.com.uy', 1, '', ()),
     ('google.com.vn', 'www.google.com.vn', 0, '', ()),
     ('maps.google.com.vn', 'www.google.com.vn', 1, '', ()),
     ('google.cz', 'www.google.cz', 0, '', ()),
     ('maps.google.cz', 'www.google.cz', 1, '', ()),
     ('google.de', 'www.google.de', 0, '', ()),
     ('maps.google.de', 'www.google.de', 1, '', ()),
     ('google.dk', 'www.google.dk', 0, '', ()),
     ('maps.google.dk', 'www.google.dk', 1, '', ()),
     ('google.ee', 'www.google.ee', 0, '', ()),
     ('maps.google.ee', 'www.google.ee', 1, '', ()),
     ('google.es', 'www.google.es', 0, '', ()),
     ('maps.google.es', 'www.google.es', 1, '', ()),
     ('google.fi', 'www.google.fi', 0, '', ()),
     ('maps.google.fi', 'www.google.fi', 1, '', ()),
     ('google.fr', 'www.google.fr', 0, '', ()),
     ('maps.google.fr', 'www.google.fr', 1, '', ()),
     ('google.gr', 'www.google.gr', 0, '', ()),
     ('maps.google.gr', 'www.google.gr', 1, '', ()),
     ('google.hr', 'www.google.hr', 0, '', ()),
     ('maps.google.hr', 'www.google.hr', 1, '', ()),
     ('google.hu', 'www.google.hu', 0, '', ()),
     ('maps.google.hu', 'www.google.hu', 1, '', ()),
     ('google.ie', 'www.google.ie', 0, '', ()),
     ('maps.google.ie', 'www.google.ie', 1, '', ()),
     ('google.is', 'www.google.is', 0, '', ()),
     ('maps.google.is', 'www.google.is', 1, '', ()),
     ('google.it', 'www.google.it', 0, '', ()),
     ('maps.google.it', 'www.google.it', 1, '', ()),
     ('google.lt', 'www.google.lt', 0, '', ()),
     ('maps.google.lt', 'www.google.lt', 1, '', ()),
     ('google.lu', 'www.google.lu', 0, '', ()),
     ('maps.google.lu', 'www.google.lu', 1, '', ()),
     ('google.lv', 'www.google.lv', 0, '', ()),
     ('maps.google.lv', 'www.google.lv', 1, '', ()),
     ('google.nl', 'www.google.nl', 0, '', ()),
     ('maps.google.nl', 'www.google.nl', 1, '', ()),
     ('google.no', 'www.google.no', 0, '', ()),
     ('maps.google.no', 'www.google.no', 1, '', ()),
     ('google.pl', 'www.google.pl', 0, '', ()),
     ('maps.google.pl', 'www.google.pl', 1, '', ()),
     ('google.pt', 'www.google.pt', 0, '', ()),
     ('maps.google.pt', 'www.google.pt', 1, '', ()),
     ('google.ro', 'www.google.ro', 0, '', ()),
     ('maps.google.ro', 'www.google.ro', 1, '', ()),
     ('google.rs', 'www.google.rs', 0, '', ()),
     ('maps.google.rs', 'www.google.rs', 1, '', ()),
     ('google.ru', 'www.google.ru', 0, '', ()),
     ('maps.google.ru', 'www.google.ru', 1, '', ()),
     ('google.se', 'www.google.se', 0, '', ()),
     ('maps.google.se', 'www.google.se', 1, '', ()),
     ('google.si', 'www.google.si', 0, '', ()),
     ('maps.google.si', 'www.google.si', 1, '', ()),
     ('google.sk', 'www.google.sk', 0, '', ()),
     ('maps.google.sk', 'www.google.sk', 1, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/url',), 'query': {'q': '{url}'}, 'target': '{url|decode}'},
     {'path': ('/url',), 'query': {'url': '{url}'}, 'target': '{url|decode}'},
     {'path': ('/sorry/index',), 'query': {'continue': '{url}'}, 'target': '{url|decode}'},
     {'path': ('/amp/s/{rest+}',), 'target_query': True, 'target': 'https://{rest}'},
     {'path': ('/amp/{rest+}',), 'target_query': True, 'target': 'http://{rest}'},
     {
      'path': ('/search',),
      'drop': (
       'aqs', 'atyp', 'bih', 'biw', 'cad', 'cd', 'client', 'cshid', 'dpr', 'ei', 'esrc', 'fbs', 'gs_l',
       'gs_lcp', 'gs_lcrp', 'gs_lp', 'gs_ri', 'gs_rn', 'gs_ssp', 'gws_rd', 'ictx', 'iflsig', 'newwindow',
       'oq', 'pbx', 'prmd', 'rlz', 'sa', 'sca_esv', 'sca_upv', 'sclient', 'sei', 'source', 'sourceid', 'sstk',
       'sxsrf', 'uact', 'uds', 'usg', 'ved', 'vet',
      ),
      'defaults': {'ie': ('UTF-8', 'utf-8', 'UTF8', 'utf8'), 'oe': ('UTF-8', 'utf-8', 'UTF8', 'utf8')},
     },
     {'path': ('/maps',), 'groups': (0, 1), 'drop': ('authuser', 'entry', 'g_ep', 'g_st', 'sca_esv')},
     {'path': ('/maps/{rest+}',), 'groups': (0, 1), 'drop': ('authuser', 'entry', 'g_ep', 'g_st', 'sca_esv')},
     {
      'path': ('/',),
      'groups': (1,),
      'write': '/maps',
      'drop': ('authuser', 'entry', 'g_ep', 'g_st', 'sca_esv'),
     },
    ),
   },
   {
    'hosts': (
     ('books.google.com', '', 0, '', ()),
     ('books.google.ae', '', 0, '', ()),
     ('books.google.at', '', 0, '', ()),
     ('books.google.be', '', 0, '', ()),
     ('books.google.bg', '', 0, '', ()),
     ('books.google.ca', '', 0, '', ()),
     ('books.google.ch', '', 0, '', ()),
     ('books.google.cl', '', 0, '', ()),
     ('books.google.co.id', '', 0, '', ()),
     ('books.google.co.il', '', 0, '', ()),
     ('books.google.co.in', '', 0, '', ()),
     ('books.google.co.jp', '', 0, '', ()),
     ('books.google.co.ke', '', 0, '', ()),
     ('books.google.co.kr', '', 0, '', ()),
     ('books.google.co.nz', '', 0, '', ()),
     ('books.google.co.th', '', 0, '', ()),
     ('books.google.co.uk', '', 0, '', ()),
     ('books.google.co.ve', '', 0, '', ()),
     ('books.google.co.za', '', 0, '', ()),
     ('books.google.com.ar', '', 0, '', ()),
     ('books.google.com.au', '', 0, '', ()),
     ('books.google.com.bd', '', 0, '', ()),
     ('books.google.com.br', '', 0, '', ()),
     ('books.google.com.co', '', 0, '', ()),
     ('books.google.com.ec', '', 0, '', ()),
     ('books.google.com.eg', '', 0, '', ()),
     ('books.google.com.hk', '', 0, '', ()),
     ('books.google.com.mx', '', 0, '', ()),
     ('books.google.com.my', '', 0, '', ()),
     ('books.google.com.ng', '', 0, '', ()),
     ('books.google.com.pe', '', 0, '', ()),
     ('books.google.com.ph', '', 0, '', ()),
     ('books.google.com.pk', '', 0, '', ()),
     ('books.google.com.sa', '', 0, '', ()),
     ('books.google.com.sg', '', 0, '', ()),
     ('books.google.com.tr', '', 0, '', ()),
     ('books.google.com.tw', '', 0, '', ()),
     ('books.google.com.ua', '', 0, '', ()),
     ('books.google.com.uy', '', 0, '', ()),
     ('books.google.com.vn', '', 0, '', ()),
     ('books.google.cz', '', 0, '', ()),
     ('books.google.de', '', 0, '', ()),
     ('books.google.dk', '', 0, '', ()),
     ('books.google.ee', '', 0, '', ()),
     ('books.google.es', '', 0, '', ()),
     ('books.google.fi', '', 0, '', ()),
     ('books.google.fr', '', 0, '', ()),
     ('books.google.gr', '', 0, '', ()),
     ('books.google.hr', '', 0, '', ()),
     ('books.google.hu', '', 0, '', ()),
     ('books.google.ie', '', 0, '', ()),
     ('books.google.is', '', 0, '', ()),
     ('books.google.it', '', 0, '', ()),
     ('books.google.lt', '', 0, '', ()),
     ('books.google.lu', '', 0, '', ()),
     ('books.google.lv', '', 0, '', ()),
     ('books.google.nl', '', 0, '', ()),
     ('books.google.no', '', 0, '', ()),
     ('books.google.pl', '', 0, '', ()),
     ('books.google.pt', '', 0, '', ()),
     ('books.google.ro', '', 0, '', ()),
     ('books.google.rs', '', 0, '', ()),
     ('books.google.ru', '', 0, '', ()),
     ('books.google.se', '', 0, '', ()),
     ('books.google.si', '', 0, '', ()),
     ('books.google.sk', '', 0, '', ()),
    ),
    'https': True,
    'drop': ('cad', 'ei', 'ots', 'sa', 'sig', 'sqi', 'usg', 'ved'),
   },
   {
    'hosts': (
     ('consent.google.com', '', 0, '', ()),
     ('consent.youtube.com', '', 0, '', ()),
     ('consent.google.ae', '', 0, '', ()),
     ('consent.google.at', '', 0, '', ()),
     ('consent.google.be', '', 0, '', ()),
     ('consent.google.bg', '', 0, '', ()),
     ('consent.google.ca', '', 0, '', ()),
     ('consent.google.ch', '', 0, '', ()),
     ('consent.google.cl', '', 0, '', ()),
     ('consent.google.co.id', '', 0, '', ()),
     ('consent.google.co.il', '', 0, '', ()),
     ('consent.google.co.in', '', 0, '', ()),
     ('consent.google.co.jp', '', 0, '', ()),
     ('consent.google.co.ke', '', 0, '', ()),
     ('consent.google.co.kr', '', 0, '', ()),
     ('consent.google.co.nz', '', 0, '', ()),
     ('consent.google.co.th', '', 0, '', ()),
     ('consent.google.co.uk', '', 0, '', ()),
     ('consent.google.co.ve', '', 0, '', ()),
     ('consent.google.co.za', '', 0, '', ()),
     ('consent.google.com.ar', '', 0, '', ()),
     ('consent.google.com.au', '', 0, '', ()),
     ('consent.google.com.bd', '', 0, '', ()),
     ('consent.google.com.br', '', 0, '', ()),
     ('consent.google.com.co', '', 0, '', ()),
     ('consent.google.com.ec', '', 0, '', ()),
     ('consent.google.com.eg', '', 0, '', ()),
     ('consent.google.com.hk', '', 0, '', ()),
     ('consent.google.com.mx', '', 0, '', ()),
     ('consent.google.com.my', '', 0, '', ()),
     ('consent.google.com.ng', '', 0, '', ()),
     ('consent.google.com.pe', '', 0, '', ()),
     ('consent.google.com.ph', '', 0, '', ()),
     ('consent.google.com.pk', '', 0, '', ()),
     ('consent.google.com.sa', '', 0, '', ()),
     ('consent.google.com.sg', '', 0, '', ()),
     ('consent.google.com.tr', '', 0, '', ()),
     ('consent.google.com.tw', '', 0, '', ()),
     ('consent.google.com.ua', '', 0, '', ()),
     ('consent.google.com.uy', '', 0, '', ()),
     ('consent.google.com.vn', '', 0, '', ()),
     ('consent.google.cz', '', 0, '', ()),
     ('consent.google.de', '', 0, '', ()),
     ('consent.google.dk', '', 0, '', ()),
     ('consent.google.ee', '', 0, '', ()),
     ('consent.google.es', '', 0, '', ()),
     ('consent.google.fi', '', 0, '', ()),
     ('consent.google.fr', '', 0, '', ()),
     ('consent.google.gr', '', 0, '', ()),
     ('consent.google.hr', '', 0, '', ()),
     ('consent.google.hu', '', 0, '', ()),
     ('consent.google.ie', '', 0, '', ()),
     ('consent.google.is', '', 0, '', ()),
     ('consent.google.it', '', 0, '', ()),
     ('consent.google.lt', '', 0, '', ()),
     ('consent.google.lu', '', 0, '', ()),
     ('consent.google.lv', '', 0, '', ()),
     ('consent.google.nl', '', 0, '', ()),
     ('consent.google.no', '', 0, '', ()),
     ('consent.google.pl', '', 0, '', ()),
     ('consent.google.pt', '', 0, '', ()),
     ('consent.google.ro', '', 0, '', ()),
     ('consent.google.rs', '', 0, '', ()),
     ('consent.google.ru', '', 0, '', ()),
     ('consent.google.se', '', 0, '', ()),
     ('consent.google.si', '', 0, '', ()),
     ('consent.google.sk', '', 0, '', ()),
    ),
    'pages': ({'path': ('/d', '/m', '/ml'), 'query': {'continue': '{url}'}, 'target': '{url|decode}'},),
   },
   {
    'hosts': (('*.cdn.ampproject.org', '', 0, '', ()), ('cdn.ampproject.org', '', 0, '', ())),
    'pages': ({'path': ('/{kind=c|v}/s/{rest+}',), 'target_query': True, 'target': 'https://{rest}'},),
   },
  ),
 },
 'googledocs@1': {
  'blocks': (
   {
    'hosts': (('docs.google.com', 'docs.google.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('authuser', 'ouid', 'pli', 'rtpof', 'sd', 'urp', 'usp'),
    'pages': (
     {
      'path': ('/{kind=document|spreadsheets|presentation|drawings}/d/{id:id}',),
      'write': '/{kind}/d/{id}/edit',
     },
     {
      'path': ('/{kind=document|spreadsheets|presentation|drawings}/u/{account:digits}/d/{id:id}',),
      'write': '/{kind}/d/{id}/edit',
     },
     {
      'path': ('/{kind=document|spreadsheets|presentation|drawings|forms}/d/{rest+}',),
      'write': '/{kind}/d/{rest}',
     },
     {
      'path': ('/{kind=document|spreadsheets|presentation|drawings|forms}/u/{account:digits}/d/{rest+}',),
      'write': '/{kind}/d/{rest}',
     },
    ),
   },
   {
    'hosts': (('drive.google.com', 'drive.google.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('authuser', 'ouid', 'pli', 'rtpof', 'sd', 'urp', 'usp'),
    'pages': (
     {'path': ('/file/d/{id:id}', '/file/d/{id:id}/view'), 'write': '/file/d/{id}/view'},
     {
      'path': ('/file/u/{account:digits}/d/{id:id}', '/file/u/{account:digits}/d/{id:id}/view'),
      'write': '/file/d/{id}/view',
     },
     {'path': ('/drive/folders/{id:id}', '/drive/mobile/folders/{id:id}'), 'write': '/drive/folders/{id}'},
     {'path': ('/drive/u/{account:digits}/folders/{id:id}',), 'write': '/drive/folders/{id}'},
     {'path': ('/folderview',), 'query': {'id': '{id:id}'}, 'write': '/drive/folders/{id}'},
    ),
   },
   {
    'hosts': (('colab.research.google.com', 'colab.research.google.com', 0, '', ()),),
    'https': True,
    'drop': ('authuser', 'usp'),
   },
  ),
 },
 'googlenews@1': {
  'blocks': (
   {
    'hosts': (('news.google.com', 'news.google.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/articles/{id:id}', '/read/{id:id}', '/rss/articles/{id:id}'),
      'write': '/articles/{id}',
      'keep': (),
     },
    ),
   },
  ),
 },
 'googleplay@1': {
  'blocks': (
   {
    'hosts': (('play.google.com', 'play.google.com', 0, '', ()), ('market.android.com', 'play.google.com', 1, '', ())),
    'https': True,
    'slash': 'strip',
    'drop': ('pcampaignid', 'pli', 'referrer'),
    'pages': (
     {
      'path': ('/store/apps/details',),
      'query': {'id': '{id:name}'},
      'write': '/store/apps/details?id={id}',
      'drop': ('feature', 'rdid'),
     },
     {
      'path': ('/details',),
      'query': {'id': '{id:name}'},
      'groups': (1,),
      'write': '/store/apps/details?id={id}',
     },
    ),
   },
  ),
 },
 'guardian@1': {
  'blocks': (
   {
    'hosts': (
     ('theguardian.com', 'www.theguardian.com', 0, '', ()),
     ('amp.theguardian.com', 'www.theguardian.com', 0, '', ()),
     ('guardian.co.uk', 'www.theguardian.com', 0, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': ('cmp', 'intcmp'),
   },
  ),
 },
 'hackernews@1': {
  'blocks': (
   {
    'hosts': (('news.ycombinator.com', 'news.ycombinator.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': ({'path': ('/', '/news'), 'write': '/'},),
   },
  ),
 },
 'imdb@1': {
  'blocks': (
   {
    'hosts': (('imdb.com', 'www.imdb.com', 0, '', ()), ('m.imdb.com', 'www.imdb.com', 0, '', ())),
    'https': True,
    'slash': 'strip',
    'drop': ('pf_rd_*', 'ref_'),
   },
  ),
 },
 'imgur@1': {
  'blocks': (
   {
    'hosts': (('imgur.com', 'imgur.com', 0, '', ()), ('m.imgur.com', 'imgur.com', 0, '', ())),
    'https': True,
    'slash': 'strip',
    'pages': ({'path': ('/{kind=gallery|a}/{slug}-{id:alnum:5-7}',), 'write': '/{kind}/{id}'},),
   },
  ),
 },
 'indeed@1': {
  'blocks': (
   {
    'hosts': (('indeed.com', 'www.indeed.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': ({'path': ('/viewjob', '/rc/clk'), 'query': {'jk': '{id:hex}'}, 'write': '/viewjob?jk={id}', 'keep': ()},),
   },
  ),
 },
 'instagram@1': {
  'blocks': (
   {
    'hosts': (
     ('instagram.com', 'www.instagram.com', 0, '', ()),
     ('m.instagram.com', 'www.instagram.com', 0, '', ()),
     ('instagr.am', 'www.instagram.com', 0, '', ()),
     ('l.instagram.com', 'www.instagram.com', 1, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': ('ig_mid', 'ig_rid', 'igsh', 'igshid'),
    'pages': (
     {
      'path': ('/{kind=p|reel|reels|tv}/{id:id:5-60}',),
      'write': '/p/{id}',
      'keep': ('img_index',),
      'defaults': {'img_index': ('1',)},
     },
     {
      'path': ('/{user:name}/{kind=p|reel|tv}/{id:id:5-60}',),
      'write': '/p/{id}',
      'keep': ('img_index',),
      'defaults': {'img_index': ('1',)},
     },
     {
      'path': ('/{user:name:1-30}',),
      'not': {'user': ('explore', 'accounts', 'direct', 'reels', 'about', 'legal', 'web', 'api')},
      'write': '/{user|lower}',
      'drop': ('hl',),
     },
     {'path': ('/',), 'query': {'u': '{url}'}, 'groups': (1,), 'target': '{url|decode}'},
    ),
   },
  ),
 },
 'lemonde@1': {
  'blocks': (
   {
    'hosts': (
     ('lemonde.fr', 'www.lemonde.fr', 0, '', ()),
     ('mobile.lemonde.fr', 'www.lemonde.fr', 0, '', ()),
     ('abonnes.lemonde.fr', 'www.lemonde.fr', 0, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': ('ise_click_rank', 'lmd_*', 'random', 'search-type'),
   },
  ),
 },
 'letterboxd@1': {'blocks': ({'hosts': (('letterboxd.com', 'letterboxd.com', 0, '', ()),), 'https': True, 'slash': 'strip'},)},
 'linkedin@1': {
  'blocks': (
   {
    'hosts': (
     ('linkedin.com', 'www.linkedin.com', 0, '', ()),
     ('*.linkedin.com', 'www.linkedin.com', 1, '{country:lower:2}', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': (
     'ebp', 'lici', 'licu', 'lipi', 'midsig', 'midtoken', 'miniprofileurn', 'original_referer',
     'originalreferer', 'originalsubdomain', 'otptoken', 'rcm', 'refid', 'trackingid', 'trk*',
    ),
    'pages': (
     {'path': ('/redir/redirect', '/safety/go'), 'query': {'url': '{url}'}, 'target': '{url|decode}'},
     {'path': ('/authwall',), 'query': {'sessionRedirect': '{url}'}, 'target': '{url|decode}'},
     {'path': ('/in/{name}', '/comm/in/{name}'), 'groups': (0, 1), 'write': '/in/{name|lower}'},
     {'path': ('/{kind=company|school|showcase}/{name}',), 'groups': (0, 1), 'write': '/{kind}/{name|lower}'},
     {
      'path': ('/jobs/view/{id:digits}', '/comm/jobs/view/{id:digits}'),
      'groups': (0, 1),
      'write': '/jobs/view/{id}',
      'keep': (),
     },
     {'path': ('/jobs/view/{slug}-{id:digits}',), 'groups': (0, 1), 'write': '/jobs/view/{id}', 'keep': ()},
     {'path': ('/feed/update/{urn}',), 'write': '/feed/update/{urn|unescape}'},
     {'path': ('/{kind=posts|pulse}/{slug}',), 'groups': (0, 1)},
    ),
   },
  ),
 },
 'lobsters@1': {
  'blocks': (
   {
    'hosts': (('lobste.rs', 'lobste.rs', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/s/{id:base36:6}/{slug:word}',), 'write': '/s/{id}'},
     {'path': ('/~{user:id}', '/u/{user:id}'), 'write': '/~{user}'},
    ),
   },
  ),
 },
 'mastodon@1': {
  'blocks': (
   {
    'hosts': (
     ('mastodon.social', '', 0, '', ()),
     ('mastodon.online', '', 0, '', ()),
     ('mastodon.world', '', 0, '', ()),
     ('mastodon.art', '', 0, '', ()),
     ('mastodon.cloud', '', 0, '', ()),
     ('mastodonapp.uk', '', 0, '', ()),
     ('mstdn.social', '', 0, '', ()),
     ('mstdn.jp', '', 0, '', ()),
     ('mstdn.ca', '', 0, '', ()),
     ('mas.to', '', 0, '', ()),
     ('fosstodon.org', '', 0, '', ()),
     ('hachyderm.io', '', 0, '', ()),
     ('infosec.exchange', '', 0, '', ()),
     ('techhub.social', '', 0, '', ()),
     ('chaos.social', '', 0, '', ()),
     ('social.tchncs.de', '', 0, '', ()),
     ('ioc.exchange', '', 0, '', ()),
     ('indieweb.social', '', 0, '', ()),
     ('aus.social', '', 0, '', ()),
     ('mathstodon.xyz', '', 0, '', ()),
     ('social.vivaldi.net', '', 0, '', ()),
     ('front-end.social', '', 0, '', ()),
     ('universeodon.com', '', 0, '', ()),
     ('toot.community', '', 0, '', ()),
     ('octodon.social', '', 0, '', ()),
     ('sfba.social', '', 0, '', ()),
     ('det.social', '', 0, '', ()),
     ('troet.cafe', '', 0, '', ()),
     ('ruby.social', '', 0, '', ()),
     ('phpc.social', '', 0, '', ()),
     ('scholar.social', '', 0, '', ()),
     ('newsie.social', '', 0, '', ()),
     ('journa.host', '', 0, '', ()),
     ('masto.ai', '', 0, '', ()),
     ('piaille.fr', '', 0, '', ()),
     ('mamot.fr', '', 0, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': (
       '/@{user:word}/{id:digits}', '/web/@{user:word}/{id:digits}', '/deck/@{user:word}/{id:digits}',
       '/users/{user:word}/statuses/{id:digits}',
      ),
      'write': '/@{user|lower}/{id}',
     },
     {
      'path': ('/@{user:word}', '/web/@{user:word}', '/deck/@{user:word}', '/users/{user:word}'),
      'write': '/@{user|lower}',
     },
    ),
   },
  ),
 },
 'medium@1': {
  'blocks': (
   {
    'hosts': (('medium.com', 'medium.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('gi', 'postpublishedtype', 'responsesopen', 'sortby', 'source'),
    'pages': (
     {
      'path': ('/m/global-identity', '/m/global-identity-2'),
      'query': {'redirectUrl': '{url}'},
      'target': '{url|decode}',
     },
     {'path': ('/p/{id:hex:10-12}',), 'write': '/p/{id}'},
     {
      'path': ('/{author}/{slug}-{id:hex:10-12}',),
      'not': {'author': ('c', 'feed', 'm', 'me', 'r', 'search', 'tag', 'topic', 'u')},
      'write': '/p/{id}',
     },
     {'path': ('/@{author:name}/{id:hex:10-12}',), 'write': '/p/{id}'},
    ),
   },
   {
    'hosts': (('*.medium.com', '*.medium.com', 0, '', ('api', 'blog', 'help', 'link', 'policy')),),
    'https': True,
    'slash': 'strip',
    'drop': ('gi', 'postpublishedtype', 'responsesopen', 'sortby', 'source'),
    'pages': ({'path': ('/{slug}-{id:hex:10-12}',), 'write': 'https://medium.com/p/{id}'},),
    'written_hosts': ('medium.com',),
   },
   {
    'hosts': (
     ('betterprogramming.pub', '', 0, '', ()),
     ('itnext.io', '', 0, '', ()),
     ('levelup.gitconnected.com', '', 0, '', ()),
     ('proandroiddev.com', '', 0, '', ()),
     ('uxdesign.cc', '', 0, '', ()),
    ),
    'https': True,
    'drop': ('gi', 'source'),
   },
  ),
 },
 'mirrors@1': {
  'blocks': (
   {
    'hosts': (('huggingface.co', 'huggingface.co', 0, '', ()), ('hf.co', 'huggingface.co', 0, '', ())),
    'https': True,
    'slash': 'strip',
   },
   {
    'hosts': (('xkcd.com', 'xkcd.com', 0, '', ()), ('m.xkcd.com', 'xkcd.com', 0, '', ())),
    'https': True,
    'slash': 'strip',
   },
   {
    'hosts': (
     ('learn.microsoft.com', 'learn.microsoft.com', 0, '', ()),
     ('docs.microsoft.com', 'learn.microsoft.com', 0, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': ('redirectedfrom',),
   },
   {
    'hosts': (('wikihow.com', 'www.wikihow.com', 0, '', ()), ('m.wikihow.com', 'www.wikihow.com', 0, '', ())),
    'https': True,
   },
  ),
 },
 'musicbrainz@1': {
  'blocks': (
   {
    'hosts': (
     ('musicbrainz.org', 'musicbrainz.org', 0, '', ()),
     ('beta.musicbrainz.org', 'musicbrainz.org', 0, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': ('tport',),
    'pages': (
     {
      'path': (
       '/{kind=area|artist|event|genre|instrument|label|place|recording|release|release-group|series|url|work}/{id:id:36}',
      ),
      'write': '/{kind}/{id|lower}',
     },
    ),
   },
  ),
 },
 'myanimelist@1': {
  'blocks': (
   {
    'hosts': (('myanimelist.net', 'myanimelist.net', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': ({'path': ('/{kind=anime|manga|people|character}/{id:digits}/{slug}',), 'write': '/{kind}/{id}'},),
   },
  ),
 },
 'nicovideo@1': {
  'blocks': (
   {
    'hosts': (
     ('nicovideo.jp', 'www.nicovideo.jp', 0, '', ()),
     ('sp.nicovideo.jp', 'www.nicovideo.jp', 0, '', ()),
     ('nico.ms', 'www.nicovideo.jp', 1, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/watch/{id:base36}',), 'write': '/watch/{id}', 'keep': ('from',)},
     {'path': ('/sm{id:digits}',), 'groups': (1,), 'write': '/watch/sm{id}', 'keep': ('from',)},
    ),
   },
  ),
 },
 'npm@1': {
  'blocks': (
   {
    'hosts': (('npmjs.com', 'www.npmjs.com', 0, '', ()), ('npmjs.org', 'www.npmjs.com', 0, '', ())),
    'https': True,
    'slash': 'strip',
    'defaults': {'activetab': ('readme',)},
   },
  ),
 },
 'nuget@1': {
  'blocks': (
   {
    'hosts': (('nuget.org', 'www.nuget.org', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/packages/{name:name}',), 'write': '/packages/{name|lower}'},
     {'path': ('/packages/{name:name}/{rest+}',), 'write': '/packages/{name|lower}/{rest}'},
    ),
   },
  ),
 },
 'nytimes@1': {
  'blocks': (
   {
    'hosts': (('nytimes.com', 'www.nytimes.com', 0, '', ()), ('mobile.nytimes.com', 'www.nytimes.com', 0, '', ())),
    'https': True,
    'slash': 'strip',
    'drop': (
     'action', 'algo', 'block', 'campaign_id', 'contentcollection', 'contentplacement', 'emc', 'fellback',
     'hp', 'hpgrp', 'imp_id', 'impression_id', 'instance_id', 'module', 'nl', 'partner', 'pgtype', 'pool',
     'pvid', 'referringsource', 'regi_id', 'region', 'req_id', 'ribbon-ad-idx', 'rref',
     'searchresultposition', 'segment_id', 'smid', 'smtyp', 'surface', 'te', 'ugrp', 'user_id', 'wt.nav',
     'wt.z_sma',
    ),
    'pages': (
     {
      'path': ('/{year:digits:4}/{month:digits:2}/{day:digits:2}/{section:id}/{slug:id}.amp.html',),
      'write': '/{year}/{month}/{day}/{section}/{slug}.html',
     },
    ),
   },
   {
    'hosts': (('cooking.nytimes.com', 'cooking.nytimes.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': (
     'action', 'campaign_id', 'emc', 'instance_id', 'module', 'nl', 'partner', 'pgtype', 'referringsource',
     'regi_id', 'region', 'segment_id', 'smid', 'smtyp', 'te', 'user_id',
    ),
    'pages': ({'path': ('/recipes/{id:digits}-{slug}',), 'write': '/recipes/{id}'},),
   },
  ),
 },
 'openlibrary@1': {
  'blocks': (
   {
    'hosts': (('openlibrary.org', 'openlibrary.org', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/books/OL{id:digits}M/{slug:id}',),
      'not': {'slug': ('edit', 'add-cover', 'history', 'lists', 'borrow', 'daisy', '-')},
      'write': '/books/OL{id}M',
     },
     {
      'path': ('/works/OL{id:digits}W/{slug:id}',),
      'not': {'slug': ('edit', 'add-cover', 'history', 'lists', 'editions', 'bookshelves', 'ratings', '-')},
      'write': '/works/OL{id}W',
     },
     {
      'path': ('/authors/OL{id:digits}A/{slug:id}',),
      'not': {'slug': ('edit', 'add-photo', 'history', 'works', '-')},
      'write': '/authors/OL{id}A',
     },
    ),
   },
  ),
 },
 'openstreetmap@1': {
  'blocks': (
   {
    'hosts': (
     ('openstreetmap.org', 'www.openstreetmap.org', 0, '', ()),
     ('osm.org', 'www.openstreetmap.org', 0, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': (
       '/{kind=node|way|relation|changeset}/{id:digits}',
       '/browse/{kind=node|way|relation|changeset}/{id:digits}',
      ),
      'write': '/{kind}/{id}',
     },
    ),
   },
  ),
 },
 'papers@1': {
  'blocks': (
   {
    'hosts': (('dl.acm.org', 'dl.acm.org', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/doi/10.{prefix:digits}/{suffix+}', '/doi/abs/10.{prefix:digits}/{suffix+}'),
      'write': '/doi/10.{prefix}/{suffix|lower}',
     },
    ),
   },
   {
    'hosts': (('ieeexplore.ieee.org', 'ieeexplore.ieee.org', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/document/{id:digits}', '/abstract/document/{id:digits}'), 'write': '/document/{id}'},
     {'path': ('/xpl/articleDetails.jsp',), 'query': {'arnumber': '{id:digits}'}, 'write': '/document/{id}'},
    ),
   },
   {
    'hosts': (('papers.ssrn.com', 'papers.ssrn.com', 0, '', ()), ('ssrn.com', 'papers.ssrn.com', 1, '', ())),
    'https': True,
    'pages': (
     {
      'path': ('/sol3/papers.cfm',),
      'query': {'abstract_id': '{id:digits}'},
      'write': '/sol3/papers.cfm?abstract_id={id}',
     },
     {'path': ('/abstract={id:digits}',), 'groups': (1,), 'write': '/sol3/papers.cfm?abstract_id={id}'},
    ),
   },
   {
    'hosts': (('aclanthology.org', 'aclanthology.org', 0, '', ()), ('aclweb.org', 'aclanthology.org', 1, '', ())),
    'https': True,
    'slash': 'strip',
    'pages': ({'path': ('/anthology/{id:name}',), 'groups': (1,), 'write': '/{id}'},),
   },
   {
    'hosts': (('clinicaltrials.gov', 'clinicaltrials.gov', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/study/NCT{id:digits}', '/ct2/show/NCT{id:digits}'),
      'write': '/study/NCT{id}',
      'keep': ('tab',),
     },
    ),
   },
  ),
 },
 'parameters@1': {
  'blocks': (
   {'hosts': (('techcrunch.com', '', 0, '', ()),), 'drop': ('ncid', 'sr_share', 'tpcc')},
   {
    'hosts': (('cnet.com', '', 0, '', ()), ('zdnet.com', '', 0, '', ()), ('gamespot.com', '', 0, '', ())),
    'drop': ('ftag',),
   },
   {
    'hosts': (
     ('newyorker.com', '', 0, '', ()),
     ('wired.com', '', 0, '', ()),
     ('vanityfair.com', '', 0, '', ()),
     ('vogue.com', '', 0, '', ()),
     ('gq.com', '', 0, '', ()),
     ('bonappetit.com', '', 0, '', ()),
     ('pitchfork.com', '', 0, '', ()),
    ),
    'drop': ('bxid', 'cndid', 'esrc', 'hasha', 'hashb', 'hashc', 'mbid'),
   },
   {'hosts': (('cnbc.com', '', 0, '', ()),), 'drop': ('__source',)},
   {'hosts': (('foxnews.com', '', 0, '', ()), ('foxbusiness.com', '', 0, '', ())), 'drop': ('intcmp',)},
   {
    'hosts': (('politico.com', '', 0, '', ()), ('politico.eu', '', 0, '', ())),
    'drop': ('nlid', 'nname', 'nrid'),
   },
   {'hosts': (('aljazeera.com', '', 0, '', ()),), 'drop': ('traffic_source',)},
   {'hosts': (('dw.com', '', 0, '', ()),), 'drop': ('maca',)},
   {'hosts': (('economist.com', '', 0, '', ()),), 'drop': ('etear', 'fsrc')},
   {'hosts': (('ft.com', '', 0, '', ()),), 'drop': ('segmentid', 'sharetype')},
   {'hosts': (('dailymail.co.uk', '', 0, '', ()),), 'drop': ('ico', 'ito', 'ns_campaign', 'ns_mchannel')},
   {'hosts': (('apnews.com', '', 0, '', ()),), 'drop': ('taid',)},
   {'hosts': (('zeit.de', '', 0, '', ()),), 'drop': ('wt_zmc',)},
   {'hosts': (('faz.net', '', 0, '', ()),), 'drop': ('gepc',)},
   {'hosts': (('welt.de', '', 0, '', ()),), 'drop': ('wtmc', 'wtrid')},
   {'hosts': (('elpais.com', '', 0, '', ()),), 'drop': ('ssm',)},
   {
    'hosts': (
     ('yahoo.com', '', 0, '', ()),
     ('news.yahoo.com', '', 0, '', ()),
     ('finance.yahoo.com', '', 0, '', ()),
     ('sports.yahoo.com', '', 0, '', ()),
    ),
    'drop': ('.tsrc', 'ncid', 'soc_src', 'soc_trk'),
   },
   {'hosts': (('netflix.com', '', 0, '', ()),), 'drop': ('tctx', 'trackid', 'trackidetp', 'trkid')},
   {'hosts': (('meetup.com', '', 0, '', ()),), 'drop': ('eventorigin', 'recid', 'recsource', 'searchid')},
   {
    'hosts': (
     ('eventbrite.com', '', 0, '', ()),
     ('eventbrite.co.uk', '', 0, '', ()),
     ('eventbrite.ca', '', 0, '', ()),
     ('eventbrite.com.au', '', 0, '', ()),
     ('eventbrite.de', '', 0, '', ()),
     ('eventbrite.es', '', 0, '', ()),
     ('eventbrite.fr', '', 0, '', ()),
     ('eventbrite.ie', '', 0, '', ()),
     ('eventbrite.it', '', 0, '', ()),
     ('eventbrite.nl', '', 0, '', ()),
    ),
    'drop': ('aff',),
   },
   {'hosts': (('kickstarter.com', '', 0, '', ()), ('producthunt.com', '', 0, '', ())), 'drop': ('ref',)},
   {
    'hosts': (('change.org', '', 0, '', ()),),
    'drop': ('psf_variant', 'recruited_by_id', 'recruiter', 'share_id', 'source_location'),
   },
   {'hosts': (('gofundme.com', '', 0, '', ()),), 'drop': ('attribution_id',)},
   {
    'hosts': (('*.bandcamp.com', '', 0, '{artist:label}', ()),),
    'drop': (
     'from', 'search_item_id', 'search_item_type', 'search_match_part', 'search_page_id', 'search_page_no',
     'search_rank', 'search_sig',
    ),
   },
   {
    'hosts': (('nature.com', '', 0, '', ()), ('link.springer.com', '', 0, '', ())),
    'drop': ('code', 'error', 'frompaywallrec'),
   },
   {'hosts': (('sciencedirect.com', '', 0, '', ()),), 'drop': ('dgcid', 'via')},
   {'hosts': (('tandfonline.com', '', 0, '', ()),), 'drop': ('cookieset', 'journalcode', 'needaccess')},
   {'hosts': (('academic.oup.com', '', 0, '', ()),), 'drop': ('login', 'redirectedfrom')},
   {'hosts': (('jstor.org', '', 0, '', ()),), 'drop': ('refreqid',)},
   {'hosts': (('openreview.net', '', 0, '', ()),), 'drop': ('referrer',)},
   {'hosts': (('addons.mozilla.org', '', 0, '', ()),), 'drop': ('src',)},
   {
    'hosts': (
     ('movie.douban.com', '', 0, '', ()),
     ('book.douban.com', '', 0, '', ()),
     ('music.douban.com', '', 0, '', ()),
    ),
    'drop': ('_dtcc', '_i', 'dt_dapp', 'from'),
   },
   {'hosts': (('marketwatch.com', '', 0, '', ()), ('barrons.com', '', 0, '', ())), 'drop': ('mod',)},
   {'hosts': (('theregister.com', '', 0, '', ()),), 'drop': ('td',)},
   {'hosts': (('giphy.com', '', 0, '', ()),), 'drop': ('cid', 'ct', 'rid')},
   {'hosts': (('deezer.com', '', 0, '', ()),), 'drop': ('deferredfl', 'origin')},
   {'hosts': (('nikkei.com', '', 0, '', ()),), 'drop': ('i_cid', 'n_cid')},
   {'hosts': (('coursera.org', '', 0, '', ()),), 'drop': ('siteid',)},
   {
    'hosts': (('mp.weixin.qq.com', '', 0, '', ()),),
    'drop': ('chksm', 'devicetype', 'exportkey', 'mpshare', 'nettype', 'scene', 'srcid'),
   },
   {'hosts': (('yelp.com', '', 0, '', ()), ('m.yelp.com', '', 0, '', ())), 'drop': ('adjust_creative', 'osq')},
  ),
 },
 'pinterest@1': {
  'blocks': (
   {
    'hosts': (
     ('pinterest.com', 'www.pinterest.com', 0, '', ()),
     ('*.pinterest.com', 'www.pinterest.com', 1, '{language:lower:2}', ()),
     ('pinterest.at', 'www.pinterest.com', 2, '', ()),
     ('pinterest.ca', 'www.pinterest.com', 3, '', ()),
     ('pinterest.ch', 'www.pinterest.com', 4, '', ()),
     ('pinterest.cl', 'www.pinterest.com', 5, '', ()),
     ('pinterest.co.kr', 'www.pinterest.com', 6, '', ()),
     ('pinterest.co.uk', 'www.pinterest.com', 7, '', ()),
     ('pinterest.com.au', 'www.pinterest.com', 8, '', ()),
     ('pinterest.com.mx', 'www.pinterest.com', 9, '', ()),
     ('pinterest.de', 'www.pinterest.com', 10, '', ()),
     ('pinterest.dk', 'www.pinterest.com', 11, '', ()),
     ('pinterest.es', 'www.pinterest.com', 12, '', ()),
     ('pinterest.fr', 'www.pinterest.com', 13, '', ()),
     ('pinterest.ie', 'www.pinterest.com', 14, '', ()),
     ('pinterest.it', 'www.pinterest.com', 15, '', ()),
     ('pinterest.jp', 'www.pinterest.com', 16, '', ()),
     ('pinterest.nz', 'www.pinterest.com', 17, '', ()),
     ('pinterest.ph', 'www.pinterest.com', 18, '', ()),
     ('pinterest.pt', 'www.pinterest.com', 19, '', ()),
     ('pinterest.se', 'www.pinterest.com', 20, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/offsite',), 'query': {'url': '{url}'}, 'target': '{url|decode}'},
     {
      'path': ('/pin/{id:digits}',),
      'groups': (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20),
      'write': '/pin/{id}',
      'keep': (),
     },
     {
      'path': ('/pin/{slug}-{id:digits}',),
      'groups': (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20),
      'write': '/pin/{id}',
      'keep': (),
     },
     {
      'path': ('/{user:word}/{board}',),
      'groups': (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20),
      'not': {
       'user': (
        'pin', 'ideas', 'search', 'explore', 'today', 'topics', 'categories', 'business', 'about', 'settings',
        'discover', 'videos', 'shopping', 'news_hub', 'resource', 'country', 'convert', 'login', 'password',
        'r', '_',
       ),
      },
      'write': '/{user}/{board}',
     },
    ),
   },
  ),
 },
 'pixiv@1': {
  'blocks': (
   {
    'hosts': (('pixiv.net', 'www.pixiv.net', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/artworks/{id:digits}', '/en/artworks/{id:digits}'), 'write': '/artworks/{id}'},
     {
      'path': ('/member_illust.php',),
      'query': {'illust_id': '{id:digits}', 'mode': 'medium'},
      'write': '/artworks/{id}',
     },
    ),
   },
  ),
 },
 'pubmed@1': {
  'blocks': (
   {
    'hosts': (('pubmed.ncbi.nlm.nih.gov', 'pubmed.ncbi.nlm.nih.gov', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': ({'path': ('/{id:digits}',), 'write': '/{id}', 'drop': ('dopt', 'fc', 'ff', 'from_*', 'v')},),
   },
   {
    'hosts': (('pmc.ncbi.nlm.nih.gov', 'pmc.ncbi.nlm.nih.gov', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': ({'path': ('/articles/PMC{id:digits}',), 'write': '/articles/PMC{id}'},),
   },
   {
    'hosts': (('ncbi.nlm.nih.gov', 'www.ncbi.nlm.nih.gov', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/pubmed/{id:digits}', '/m/pubmed/{id:digits}'),
      'write': 'https://pubmed.ncbi.nlm.nih.gov/{id}',
      'drop': ('dopt',),
     },
     {'path': ('/pubmed',), 'write': 'https://pubmed.ncbi.nlm.nih.gov/'},
     {'path': ('/pmc/articles/PMC{id:digits}',), 'write': 'https://pmc.ncbi.nlm.nih.gov/articles/PMC{id}'},
    ),
    'written_hosts': ('pmc.ncbi.nlm.nih.gov', 'pubmed.ncbi.nlm.nih.gov'),
   },
  ),
 },
 'pypi@1': {
  'blocks': (
   {
    'hosts': (('pypi.org', 'pypi.org', 0, '', ()), ('pypi.python.org', 'pypi.org', 1, '', ())),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/project/{name:name}', '/p/{name:name}', '/pypi/{name:name}'),
      'write': '/project/{name|lower|dashes}',
      'drop_fragments': ('description',),
     },
     {
      'path': ('/project/{name:name}/{release}', '/pypi/{name:name}/{release}'),
      'not': {'release': ('json',)},
      'write': '/project/{name|lower|dashes}/{release}',
     },
     {
      'path': ('/pypi/{name:name}',),
      'groups': (1,),
      'write': '/project/{name|lower|dashes}',
      'drop_fragments': ('description',),
     },
     {
      'path': ('/pypi/{name:name}/{release}',),
      'groups': (1,),
      'not': {'release': ('json',)},
      'write': '/project/{name|lower|dashes}/{release}',
     },
    ),
   },
  ),
 },
 'quora@1': {
  'blocks': (
   {
    'hosts': (('*.quora.com', '', 0, '{lang:lower:2}', ()),),
    'https': True,
    'slash': 'strip',
    'drop': (
     '__filter__', '__nsrc__', '__snid3__', '__snids__', 'ch', 'no_redirect', 'oid', 'redirected_qid',
     'share', 'srid', 'target_type', 'top_ans',
    ),
   },
   {
    'hosts': (('quora.com', 'www.quora.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': (
     '__filter__', '__nsrc__', '__snid3__', '__snids__', 'ch', 'no_redirect', 'oid', 'redirected_qid',
     'share', 'srid', 'target_type', 'top_ans',
    ),
   },
  ),
 },
 'reddit@1': {
  'blocks': (
   {
    'hosts': (
     ('reddit.com', 'www.reddit.com', 0, '', ()),
     ('old.reddit.com', 'www.reddit.com', 0, '', ()),
     ('new.reddit.com', 'www.reddit.com', 0, '', ()),
     ('np.reddit.com', 'www.reddit.com', 0, '', ()),
     ('m.reddit.com', 'www.reddit.com', 0, '', ()),
     ('i.reddit.com', 'www.reddit.com', 0, '', ()),
     ('amp.reddit.com', 'www.reddit.com', 0, '', ()),
     ('sh.reddit.com', 'www.reddit.com', 0, '', ()),
     ('redd.it', 'www.reddit.com', 1, '', ()),
     ('out.reddit.com', 'www.reddit.com', 2, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': (
     '$3p', '$deep_link', '$original_url', 'correlation_id', 'entry_point', 'js_challenge', 'rdt', 'ref',
     'ref_campaign', 'ref_source', 'share_id', 'solution',
    ),
    'pages': (
     {
      'path': (
       '/r/{name:id}/comments/{id:base36}/{slug}.json', '/r/{name:id}/comments/{id:base36}/{slug}.rss',
       '/user/{name:id}/comments/{id:base36}/{slug}.json', '/user/{name:id}/comments/{id:base36}/{slug}.rss',
      ),
     },
     {
      'path': ('/comments/{id:base36}', '/gallery/{id:base36}'),
      'write': '/comments/{id}',
      'drop': ('sh', 'st'),
     },
     {
      'path': (
       '/r/{name:id}/comments/{id:base36}', '/u/{name:id}/comments/{id:base36}',
       '/user/{name:id}/comments/{id:base36}', '/comments/{id:base36}/{name:id}',
      ),
      'write': '/comments/{id}',
      'drop': ('sh', 'st'),
     },
     {
      'path': (
       '/r/{name:id}/comments/{id:base36}/{slug}', '/u/{name:id}/comments/{id:base36}/{slug}',
       '/user/{name:id}/comments/{id:base36}/{slug}',
      ),
      'not': {'slug': ('.compact', '.json', '.rss', '.xml')},
      'write': '/comments/{id}',
      'drop': ('sh', 'st'),
     },
     {
      'path': ('/comments/{id:base36}/{slug}/{comment:base36}',),
      'write': '/comments/{id}/_/{comment}',
      'drop': ('sh', 'st'),
     },
     {
      'path': (
       '/r/{name:id}/comments/{id:base36}/{slug}/{comment:base36}',
       '/u/{name:id}/comments/{id:base36}/{slug}/{comment:base36}',
       '/user/{name:id}/comments/{id:base36}/{slug}/{comment:base36}',
      ),
      'write': '/comments/{id}/_/{comment}',
      'drop': ('sh', 'st'),
     },
     {'path': ('/{id:base36}',), 'groups': (1,), 'write': '/comments/{id}', 'keep': ()},
     {'path': ('/r/{name:word}',), 'write': '/r/{name|lower}'},
     {'path': ('/r/{name:word}/{rest+}',), 'write': '/r/{name|lower}/{rest}'},
     {'path': ('/u/{name:id}', '/user/{name:id}'), 'write': '/user/{name|lower}'},
     {'path': ('/u/{name:id}/{rest+}', '/user/{name:id}/{rest+}'), 'write': '/user/{name|lower}/{rest}'},
     {'path': ('/media',), 'query': {'url': '{url}'}, 'target': '{url|decode}'},
     {'path': ('/{item}',), 'query': {'url': '{url}'}, 'groups': (2,), 'target': '{url|decode}'},
     {'path': ('/',), 'query': {'url': '{url}'}, 'groups': (2,), 'target': '{url|decode}'},
    ),
   },
  ),
 },
 'redirects@1': {
  'blocks': (
   {
    'hosts': (
     ('*.safelinks.protection.outlook.com', '', 0, '', ()),
     ('safelinks.protection.outlook.com', '', 0, '', ()),
    ),
    'pages': (
     {'path': ('/',), 'query': {'url': '{url}'}, 'target': '{url|decode}'},
     {'path': ('/{kind}',), 'query': {'url': '{url}'}, 'target': '{url|decode}'},
    ),
   },
   {
    'hosts': (('slack-redir.net', '', 0, '', ()),),
    'pages': ({'path': ('/link',), 'query': {'url': '{url}'}, 'target': '{url|decode}'},),
   },
   {
    'hosts': (
     ('urldefense.proofpoint.com', '', 0, '', ()),
     ('urldefense.com', '', 0, '', ()),
     ('urldefense.us', '', 0, '', ()),
    ),
    'pages': (
     {'path': ('/v1/url',), 'query': {'u': '{url}'}, 'target': '{url|decode}'},
     {'path': ('/v2/url',), 'query': {'u': '{url}'}, 'target': '{url|proofpoint}'},
     {'path': ('/v3/{rest+}',), 'target_code': 'proofpoint'},
    ),
   },
   {
    'hosts': (('linkprotect.cudasvc.com', '', 0, '', ()),),
    'pages': ({'path': ('/url',), 'query': {'a': '{url}'}, 'target': '{url|decode}'},),
   },
   {
    'hosts': (('clicktime.symantec.com', '', 0, '', ()),),
    'pages': ({'path': ('/{token}',), 'query': {'u': '{url}'}, 'target': '{url|decode}'},),
   },
   {
    'hosts': (('link.edgepilot.com', '', 0, '', ()),),
    'pages': ({'path': ('/s/{rest+}',), 'query': {'u': '{url}'}, 'target': '{url|decode}'},),
   },
   {
    'hosts': (('deref-gmx.net', '', 0, '', ()), ('deref-web.de', '', 0, '', ()), ('deref-mail.com', '', 0, '', ())),
    'pages': (
     {
      'path': ('/mail/client/{session}/dereferrer',),
      'query': {'redirectUrl': '{url}'},
      'target': '{url|decode}',
     },
    ),
   },
   {
    'hosts': (('l.messenger.com', '', 0, '', ()),),
    'pages': ({'path': ('/l.php',), 'query': {'u': '{url}'}, 'target': '{url|decode}'},),
   },
   {
    'hosts': (('l.wl.co', '', 0, '', ()),),
    'pages': ({'path': ('/l',), 'query': {'u': '{url}'}, 'target': '{url|decode}'},),
   },
   {
    'hosts': (('t.umblr.com', '', 0, '', ()),),
    'pages': ({'path': ('/redirect',), 'query': {'z': '{url}'}, 'target': '{url|decode}'},),
   },
   {
    'hosts': (('vk.com', '', 0, '', ()), ('m.vk.com', '', 0, '', ())),
    'pages': ({'path': ('/away.php',), 'query': {'to': '{url}'}, 'target': '{url|decode}'},),
   },
   {
    'hosts': (('getpocket.com', '', 0, '', ()),),
    'pages': ({'path': ('/redirect',), 'query': {'url': '{url}'}, 'target': '{url|decode}'},),
   },
   {
    'hosts': (('click.redditmail.com', '', 0, '', ()),),
    'pages': ({'path': ('/{token}',), 'query': {'url': '{url}'}, 'target': '{url|decode}'},),
   },
  ),
 },
 'researchgate@1': {
  'blocks': (
   {
    'hosts': (('researchgate.net', 'www.researchgate.net', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('_iepl*', '_sg*', '_tp', 'el', 'enrichid', 'rgutm_*'),
    'pages': (
     {'path': ('/publication/{id:digits}_{slug}',), 'write': '/publication/{id}'},
     {'path': ('/publication/{id:digits}_{slug}/{rest+}',), 'write': '/publication/{id}/{rest}'},
    ),
   },
  ),
 },
 'reuters@1': {
  'blocks': (
   {
    'hosts': (('reuters.com', 'www.reuters.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('edition-redirect', 'feedname', 'feedtype', 'il', 'rpc', 'taid', 'virtualbrandchannel'),
    'pages': (
     {
      'path': ('/article/{slug}', '/article/amp/{slug}'),
      'not': {'slug': ('amp',)},
      'write': '/article/{slug}',
     },
    ),
   },
  ),
 },
 'semanticscholar@1': {
  'blocks': (
   {
    'hosts': (('semanticscholar.org', 'www.semanticscholar.org', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/paper/{slug}/{id:hex:40}',), 'write': '/paper/{id}'},
     {'path': ('/author/{slug}/{id:digits}',), 'write': '/author/{id}'},
    ),
   },
  ),
 },
 'shops@1': {
  'blocks': (
   {
    'hosts': (('target.com', 'www.target.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/p/-/A-{id:digits}',), 'keep': ('preselect',)},
     {'path': ('/p/{slug}/-/A-{id:digits}',), 'write': '/p/-/A-{id}', 'keep': ('preselect',)},
    ),
   },
   {
    'hosts': (('bestbuy.com', 'www.bestbuy.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/site/{id:digits}.p',), 'keep': ('skuid',)},
     {'path': ('/site/{slug}/{id:digits}.p',), 'write': '/site/{id}.p', 'keep': ('skuid',)},
    ),
   },
   {
    'hosts': (('zillow.com', 'www.zillow.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': ({'path': ('/homedetails/{slug}/{id:digits}_zpid',), 'write': '/homedetails/{id}_zpid'},),
   },
  ),
 },
 'soundcloud@1': {
  'blocks': (
   {
    'hosts': (('soundcloud.com', 'soundcloud.com', 0, '', ()), ('m.soundcloud.com', 'soundcloud.com', 0, '', ())),
    'https': True,
    'slash': 'strip',
    'drop': ('c', 'p', 'ref', 'si'),
   },
   {
    'hosts': (('exit.sc', '', 0, '', ()), ('gate.sc', '', 0, '', ())),
    'pages': ({'path': ('/',), 'query': {'url': '{url}'}, 'target': '{url|decode}'},),
   },
  ),
 },
 'spiegel@1': {
  'blocks': (
   {
    'hosts': (('spiegel.de', 'www.spiegel.de', 0, '', ()), ('m.spiegel.de', 'www.spiegel.de', 0, '', ())),
    'https': True,
    'slash': 'strip',
    'drop': ('sara_*',),
    'drop_fragments': ('ref=*',),
    'pages': (
     {'path': ('/{section:id}/{slug}-{id:hex:12}-amp',), 'write': '/{section}/{slug}-{id}'},
     {
      'path': ('/{section:id}/{subsection:id}/{slug}-{id:hex:12}-amp',),
      'write': '/{section}/{subsection}/{slug}-{id}',
     },
    ),
   },
  ),
 },
 'spotify@1': {
  'blocks': (
   {
    'hosts': (('open.spotify.com', 'open.spotify.com', 0, '', ()), ('play.spotify.com', 'open.spotify.com', 0, '', ())),
    'https': True,
    'slash': 'strip',
    'drop': ('dl_branch', 'nd', 'si'),
    'pages': (
     {
      'path': (
       '/{kind=track|album|artist|playlist|episode|show}/{id:alnum}',
       '/embed/{kind=track|album|artist|playlist|episode|show}/{id:alnum}',
       '/embed-podcast/{kind=episode|show}/{id:alnum}',
      ),
      'write': '/{kind}/{id}',
      'keep': ('highlight', 'pt', 't'),
     },
     {
      'path': ('/intl-{language:label}/{kind=track|album|artist|playlist|episode|show}/{id:alnum}',),
      'write': '/{kind}/{id}',
      'keep': ('highlight', 'pt', 't'),
     },
     {
      'path': ('/user/{user}/playlist/{id:alnum}',),
      'write': '/playlist/{id}',
      'keep': ('highlight', 'pt', 't'),
     },
    ),
   },
  ),
 },
 'stackexchange@1': {
  'blocks': (
   {
    'hosts': (
     ('stackoverflow.com', 'stackoverflow.com', 0, '', ()),
     ('meta.stackoverflow.com', 'meta.stackoverflow.com', 0, '', ()),
     ('serverfault.com', 'serverfault.com', 0, '', ()),
     ('meta.serverfault.com', 'meta.serverfault.com', 0, '', ()),
     ('superuser.com', 'superuser.com', 0, '', ()),
     ('meta.superuser.com', 'meta.superuser.com', 0, '', ()),
     ('askubuntu.com', 'askubuntu.com', 0, '', ()),
     ('meta.askubuntu.com', 'meta.askubuntu.com', 0, '', ()),
     ('mathoverflow.net', 'mathoverflow.net', 0, '', ()),
     ('meta.mathoverflow.net', 'meta.mathoverflow.net', 0, '', ()),
     ('stackapps.com', 'stackapps.com', 0, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/questions/{id:digits}', '/q/{id:digits}'),
      'write': '/questions/{id}',
      'drop': ('lastactivity', 'lq', 'newsletter', 'nlcode', 'noredirect', 'r', 'rq', 's'),
     },
     {
      'path': ('/questions/{id:digits}/{slug}', '/q/{id:digits}/{slug}'),
      'write': '/questions/{id}',
      'drop': ('lastactivity', 'lq', 'newsletter', 'nlcode', 'noredirect', 'r', 'rq', 's'),
     },
     {'path': ('/a/{id:digits}',), 'drop_fragments': ('1*', '2*', '3*', '4*', '5*', '6*', '7*', '8*', '9*')},
     {
      'path': ('/a/{id:digits}/{user:digits}',),
      'write': '/a/{id}',
      'drop_fragments': ('1*', '2*', '3*', '4*', '5*', '6*', '7*', '8*', '9*'),
     },
     {
      'path': ('/questions/{question:digits}/{slug}/{id:digits}',),
      'write': '/a/{id}',
      'drop': ('lastactivity', 'lq', 'newsletter', 'nlcode', 'noredirect', 'r', 'rq', 's'),
      'drop_fragments': ('1*', '2*', '3*', '4*', '5*', '6*', '7*', '8*', '9*'),
     },
     {'path': ('/users/{id:digits}/{slug}',), 'write': '/users/{id}'},
    ),
   },
   {
    'hosts': (
     ('*.stackexchange.com', '', 0, '{name:label}', ()),
     ('*.meta.stackexchange.com', '', 0, '{name:label}', ()),
     ('*.stackoverflow.com', '', 0, '{lang:lower:2}', ()),
     ('*.meta.stackoverflow.com', '', 0, '{lang:lower:2}', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/questions/{id:digits}', '/q/{id:digits}'),
      'write': '/questions/{id}',
      'drop': ('lastactivity', 'lq', 'newsletter', 'nlcode', 'noredirect', 'r', 'rq', 's'),
     },
     {
      'path': ('/questions/{id:digits}/{slug}', '/q/{id:digits}/{slug}'),
      'write': '/questions/{id}',
      'drop': ('lastactivity', 'lq', 'newsletter', 'nlcode', 'noredirect', 'r', 'rq', 's'),
     },
     {'path': ('/a/{id:digits}',), 'drop_fragments': ('1*', '2*', '3*', '4*', '5*', '6*', '7*', '8*', '9*')},
     {
      'path': ('/a/{id:digits}/{user:digits}',),
      'write': '/a/{id}',
      'drop_fragments': ('1*', '2*', '3*', '4*', '5*', '6*', '7*', '8*', '9*'),
     },
     {
      'path': ('/questions/{question:digits}/{slug}/{id:digits}',),
      'write': '/a/{id}',
      'drop': ('lastactivity', 'lq', 'newsletter', 'nlcode', 'noredirect', 'r', 'rq', 's'),
      'drop_fragments': ('1*', '2*', '3*', '4*', '5*', '6*', '7*', '8*', '9*'),
     },
     {'path': ('/users/{id:digits}/{slug}',), 'write': '/users/{id}'},
    ),
   },
  ),
 },
 'steam@1': {
  'blocks': (
   {
    'hosts': (('store.steampowered.com', 'store.steampowered.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('curator_clanid', 'curator_listid', 'snr'),
    'pages': (
     {
      'path': ('/{kind=app|sub|bundle}/{id:digits}', '/agecheck/{kind=app|sub|bundle}/{id:digits}'),
      'write': '/{kind}/{id}',
     },
     {'path': ('/{kind=app|sub|bundle}/{id:digits}/{slug}',), 'write': '/{kind}/{id}'},
    ),
   },
   {
    'hosts': (('steamcommunity.com', 'steamcommunity.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('snr',),
    'pages': (
     {
      'path': ('/sharedfiles/filedetails', '/workshop/filedetails'),
      'query': {'id': '{id:digits}'},
      'write': '/sharedfiles/filedetails?id={id}',
      'drop': ('searchtext',),
     },
     {'path': ('/linkfilter',), 'query': {'u': '{url}'}, 'target': '{url|decode}'},
     {'path': ('/linkfilter',), 'query': {'url': '{url}'}, 'target': '{url|decode}'},
    ),
   },
  ),
 },
 'substack@1': {
  'blocks': (
   {
    'hosts': (
     ('*.substack.com', '*.substack.com', 0, '{name:label}', ('api', 'cdn', 'email', 'on', 'open', 'support')),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/p/{slug}',),
      'drop': (
       'isfreemail', 'just_signed_up', 'open', 'post_id', 'publication_id', 'r', 's', 'showwelcome',
       'showwelcomeonshare', 'triedredirect',
      ),
     },
    ),
   },
   {
    'hosts': (('open.substack.com', '', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/pub/{name:base36:1-63}/p/{slug}',),
      'write': 'https://{name}.substack.com/p/{slug}',
      'drop': (
       'isfreemail', 'just_signed_up', 'open', 'post_id', 'publication_id', 'r', 's', 'showwelcome',
       'showwelcomeonshare', 'triedredirect',
      ),
     },
    ),
    'written_hosts': ('{name}.substack.com',),
   },
  ),
 },
 'taobao@1': {
  'blocks': (
   {
    'hosts': (('item.taobao.com', 'item.taobao.com', 0, '', ()),),
    'https': True,
    'pages': (
     {
      'path': ('/item.htm',),
      'query': {'id': '{id:digits}'},
      'write': '/item.htm?id={id}',
      'keep': ('skuid',),
     },
    ),
   },
   {
    'hosts': (('detail.tmall.com', 'detail.tmall.com', 0, '', ()),),
    'https': True,
    'pages': (
     {
      'path': ('/item.htm',),
      'query': {'id': '{id:digits}'},
      'write': '/item.htm?id={id}',
      'keep': ('skuid',),
     },
    ),
   },
  ),
 },
 'ted@1': {
  'blocks': (
   {
    'hosts': (('ted.com', 'www.ted.com', 0, '', ()), ('embed.ted.com', 'www.ted.com', 1, '', ())),
    'https': True,
    'slash': 'strip',
    'pages': ({'path': ('/talks/{slug}',), 'groups': (0, 1), 'write': '/talks/{slug}', 'drop': ('referrer',)},),
   },
  ),
 },
 'threads@1': {
  'blocks': (
   {
    'hosts': (
     ('threads.com', 'www.threads.com', 0, '', ()),
     ('threads.net', 'www.threads.com', 0, '', ()),
     ('l.threads.com', 'www.threads.com', 1, '', ()),
     ('l.threads.net', 'www.threads.com', 2, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': ('igsh', 'igshid', 'slof', 'xmt'),
    'pages': (
     {'path': ('/@{user:name}/post/{id:id}',), 'write': '/@{user|lower}/post/{id}'},
     {'path': ('/@{user:name}',), 'write': '/@{user|lower}'},
     {'path': ('/',), 'query': {'u': '{url}'}, 'groups': (1, 2), 'target': '{url|decode}'},
    ),
   },
  ),
 },
 'tiktok@1': {
  'blocks': (
   {
    'hosts': (('tiktok.com', 'www.tiktok.com', 0, '', ()), ('m.tiktok.com', 'www.tiktok.com', 0, '', ())),
    'https': True,
    'slash': 'strip',
    'drop': ('_r', '_t', 'is_copy_url', 'is_from_webapp', 'sender_device', 'sender_web_id', 'web_id'),
    'pages': (
     {
      'path': ('/@{user:name}/{kind=video|photo}/{id:digits}',),
      'write': '/@{user|lower}/{kind}/{id}',
      'keep': (),
     },
     {'path': ('/@{user:name}',), 'write': '/@{user|lower}', 'keep': ()},
     {'path': ('/search',), 'drop': ('t',)},
    ),
   },
  ),
 },
 'tmdb@1': {
  'blocks': (
   {
    'hosts': (('themoviedb.org', 'www.themoviedb.org', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/{kind=movie|tv|person|collection}/{id:digits}-{slug}',), 'write': '/{kind}/{id}'},
     {
      'path': ('/{kind=movie|tv|person|collection}/{id:digits}-{slug}/{rest+}',),
      'write': '/{kind}/{id}/{rest}',
     },
    ),
   },
  ),
 },
 'tumblr@1': {
  'blocks': (
   {
    'hosts': (('*.tumblr.com', '*.tumblr.com', 0, '', ('api', 'assets', 'embed', 'media')),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {
      'path': ('/post/{id:digits}/{slug}',),
      'not': {'slug': ('amp', 'embed', 'mobile', 'photoset')},
      'write': '/post/{id}',
     },
    ),
   },
   {
    'hosts': (('tumblr.com', 'www.tumblr.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('source',),
    'pages': ({'path': ('/{blog:id}/{id:digits}/{slug}',), 'write': '/{blog}/{id}'},),
   },
  ),
 },
 'twitch@1': {
  'blocks': (
   {
    'hosts': (
     ('twitch.tv', 'www.twitch.tv', 0, '', ()),
     ('m.twitch.tv', 'www.twitch.tv', 0, '', ()),
     ('go.twitch.tv', 'www.twitch.tv', 0, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': ('tt_content', 'tt_medium'),
    'pages': (
     {'path': ('/videos/{id:digits}',), 'keep': ('t',), 'defaults': {'t': ('0s', '0h0m0s', '00h00m00s')}},
     {
      'path': ('/{user:word}/v/{id:digits}', '/{user:word}/video/{id:digits}'),
      'write': '/videos/{id}',
      'keep': ('t',),
      'defaults': {'t': ('0s', '0h0m0s', '00h00m00s')},
     },
     {'path': ('/clip/{slug:id}',), 'write': 'https://clips.twitch.tv/{slug}', 'keep': ()},
     {'path': ('/{user:word}/clip/{slug:id}',), 'write': 'https://clips.twitch.tv/{slug}', 'keep': ()},
     {'path': ('/{user:word}',), 'write': '/{user|lower}', 'drop': ('referrer', 'sr')},
    ),
    'written_hosts': ('clips.twitch.tv',),
   },
   {
    'hosts': (('clips.twitch.tv', 'clips.twitch.tv', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/{slug:id}',), 'not': {'slug': ('embed', 'create')}, 'write': '/{slug}', 'keep': ()},
     {'path': ('/embed',), 'query': {'clip': '{slug:id}'}, 'write': '/{slug}', 'keep': ()},
    ),
   },
  ),
 },
 'vimeo@1': {
  'blocks': (
   {
    'hosts': (
     ('vimeo.com', 'vimeo.com', 0, '', ()),
     ('m.vimeo.com', 'vimeo.com', 0, '', ()),
     ('player.vimeo.com', 'vimeo.com', 1, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': ('fe', 'fl', 'share'),
    'pages': (
     {
      'path': ('/video/{id:digits}',),
      'query': {'h': '{key:hex}'},
      'groups': (1,),
      'write': '/{id}/{key}',
      'keep': (),
     },
     {'path': ('/video/{id:digits}',), 'groups': (1,), 'write': '/{id}', 'keep': ('h',)},
     {
      'path': ('/{id:digits}',),
      'query': {'h': '{key:hex}'},
      'write': '/{id}/{key}',
      'keep': ('ts',),
      'defaults': {'ts': ('0',)},
     },
     {
      'path': ('/{id:digits}',),
      'drop': ('autopause', 'autoplay', 'badge', 'byline', 'loop', 'muted', 'player_id', 'portrait', 'title'),
      'defaults': {'ts': ('0',)},
     },
     {'path': ('/{id:digits}/{key:hex:6-20}',), 'keep': ('ts',), 'defaults': {'ts': ('0',)}},
     {
      'path': ('/channels/{name}/{id:digits}', '/groups/{name}/videos/{id:digits}'),
      'without': ('h',),
      'write': '/{id}',
      'drop': ('autopause', 'autoplay', 'badge', 'byline', 'loop', 'muted', 'player_id', 'portrait', 'title'),
      'defaults': {'ts': ('0',)},
     },
    ),
   },
  ),
 },
 'walmart@1': {
  'blocks': (
   {
    'hosts': (('walmart.com', 'www.walmart.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/ip/{id:digits}',), 'write': '/ip/{id}', 'keep': ('conditiongroupcode', 'selectedsellerid')},
     {
      'path': ('/ip/{slug}/{id:digits}',),
      'write': '/ip/{id}',
      'keep': ('conditiongroupcode', 'selectedsellerid'),
     },
    ),
   },
  ),
 },
 'washingtonpost@1': {
  'blocks': (
   {
    'hosts': (('washingtonpost.com', 'www.washingtonpost.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('hpid', 'itid', 'nid', 'tid', 'wpisrc', 'wpmm'),
    'defaults': {'outputtype': ('amp',)},
   },
  ),
 },
 'webarchive@1': {
  'blocks': (
   {
    'hosts': (('web.archive.org', 'web.archive.org', 0, '', ()),),
    'https': True,
    'pages': ({'path': ('/{kind=web|save}/{rest+}',), 'whole': True},),
   },
  ),
 },
 'weibo@1': {
  'blocks': (
   {
    'hosts': (('weibo.com', 'weibo.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('refer_flag', 'wvr'),
    'pages': (
     {'path': ('/{user:digits}/{id:alnum}',), 'keep': ()},
     {'path': ('/u/{user:digits}', '/{user:digits}'), 'write': '/u/{user}', 'drop': ('from',)},
    ),
   },
   {
    'hosts': (('m.weibo.cn', 'm.weibo.cn', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('featurecode', 'from', 'jumpfrom', 'launchid', 'lfid', 'luicode', 'oid', 'sourcetype', 'wm'),
    'pages': (
     {'path': ('/status/{id:alnum}', '/detail/{id:alnum}'), 'write': '/status/{id}', 'keep': ()},
     {'path': ('/{user:digits}/{id:digits}',), 'write': '/status/{id}', 'keep': ()},
    ),
   },
   {
    'hosts': (('weibo.cn', 'weibo.cn', 0, '', ()),),
    'https': True,
    'pages': ({'path': ('/sinaurl',), 'query': {'u': '{url}'}, 'target': '{url|decode}'},),
   },
  ),
 },
 'wikipedia@1': {
  'blocks': (
   {
    'hosts': (
     ('*.wikipedia.org', '*.wikipedia.org', 0, '{lang:label}', ('jbo',)),
     ('*.m.wikipedia.org', '*.wikipedia.org', 0, '{lang:label}', ('jbo',)),
     ('*.wikibooks.org', '*.wikibooks.org', 0, '{lang:label}', ('jbo',)),
     ('*.m.wikibooks.org', '*.wikibooks.org', 0, '{lang:label}', ('jbo',)),
     ('*.wikinews.org', '*.wikinews.org', 0, '{lang:label}', ('jbo',)),
     ('*.m.wikinews.org', '*.wikinews.org', 0, '{lang:label}', ('jbo',)),
     ('*.wikiquote.org', '*.wikiquote.org', 0, '{lang:label}', ('jbo',)),
     ('*.m.wikiquote.org', '*.wikiquote.org', 0, '{lang:label}', ('jbo',)),
     ('*.wikisource.org', '*.wikisource.org', 0, '{lang:label}', ('jbo',)),
     ('*.m.wikisource.org', '*.wikisource.org', 0, '{lang:label}', ('jbo',)),
     ('*.wikiversity.org', '*.wikiversity.org', 0, '{lang:label}', ('jbo',)),
     ('*.m.wikiversity.org', '*.wikiversity.org', 0, '{lang:label}', ('jbo',)),
     ('*.wikivoyage.org', '*.wikivoyage.org', 0, '{lang:label}', ('jbo',)),
     ('*.m.wikivoyage.org', '*.wikivoyage.org', 0, '{lang:label}', ('jbo',)),
    ),
    'https': True,
    'drop': ('mobileaction', 'oldformat', 'useskin'),
    'pages': (
     {'path': ('/wiki/{title+:text}',), 'write': '/wiki/{title|unescape|underscores|capital}'},
     {
      'path': ('/w/index.php', '/w', '/'),
      'query': {'title': '{title+:text}'},
      'no_other_params': True,
      'write': '/wiki/{title|unescape|underscores|capital}',
     },
    ),
   },
   {
    'hosts': (
     ('*.wiktionary.org', '*.wiktionary.org', 0, '{lang:label}', ()),
     ('*.m.wiktionary.org', '*.wiktionary.org', 0, '{lang:label}', ()),
    ),
    'https': True,
    'drop': ('mobileaction', 'oldformat', 'useskin'),
    'pages': (
     {'path': ('/wiki/{title+:text}',), 'write': '/wiki/{title|unescape|underscores}'},
     {
      'path': ('/w/index.php', '/w', '/'),
      'query': {'title': '{title+:text}'},
      'no_other_params': True,
      'write': '/wiki/{title|unescape|underscores}',
     },
    ),
   },
   {
    'hosts': (
     ('*.wikimedia.org', '*.wikimedia.org', 0, '{name=commons|incubator|meta|species}', ()),
     ('*.m.wikimedia.org', '*.wikimedia.org', 0, '{name=commons|incubator|meta|species}', ()),
    ),
    'https': True,
    'drop': ('mobileaction', 'oldformat', 'useskin'),
    'pages': (
     {'path': ('/wiki/{title+:text}',), 'write': '/wiki/{title|unescape|underscores|capital}'},
     {
      'path': ('/w/index.php', '/w', '/'),
      'query': {'title': '{title+:text}'},
      'no_other_params': True,
      'write': '/wiki/{title|unescape|underscores|capital}',
     },
    ),
   },
   {
    'hosts': (
     ('wikidata.org', 'www.wikidata.org', 0, '', ()),
     ('m.wikidata.org', 'www.wikidata.org', 0, '', ()),
     ('mediawiki.org', 'www.mediawiki.org', 0, '', ()),
     ('m.mediawiki.org', 'www.mediawiki.org', 0, '', ()),
    ),
    'https': True,
    'drop': ('mobileaction', 'oldformat', 'useskin'),
    'pages': (
     {'path': ('/wiki/{title+:text}',), 'write': '/wiki/{title|unescape|underscores|capital}'},
     {
      'path': ('/w/index.php', '/w', '/'),
      'query': {'title': '{title+:text}'},
      'no_other_params': True,
      'write': '/wiki/{title|unescape|underscores|capital}',
     },
    ),
   },
  ),
 },
 'wsj@1': {
  'blocks': (
   {
    'hosts': (('wsj.com', 'www.wsj.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('mod', 'reflink'),
    'pages': ({'path': ('/amp/articles/{slug}',), 'write': '/articles/{slug}'},),
   },
  ),
 },
 'x@2': {
  'blocks': (
   {
    'hosts': (
     ('x.com', 'x.com', 0, '', ()),
     ('m.x.com', 'x.com', 0, '', ()),
     ('mobile.x.com', 'x.com', 0, '', ()),
     ('twitter.com', 'x.com', 0, '', ()),
     ('m.twitter.com', 'x.com', 0, '', ()),
     ('mobile.twitter.com', 'x.com', 0, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'pages': (
     {'path': ('/i/redirect',), 'query': {'url': '{url}'}, 'target': '{url|decode}'},
     {
      'path': ('/{user:word:1-20}/status/{id:digits}', '/{user:word:1-20}/statuses/{id:digits}'),
      'ignore_case': True,
      'write': '/{user|lower}/status/{id}',
      'drop': ('cn', 'currenttweet', 'currenttweetuser', 'cxt', 'ref_src', 'ref_url', 'refsrc', 's', 't'),
     },
     {
      'path': (
       '/{user:word:1-20}/status/{id:digits}/photo/{number:digits}',
       '/{user:word:1-20}/status/{id:digits}/video/{number:digits}',
      ),
      'ignore_case': True,
      'write': '/{user|lower}/status/{id}',
      'drop': ('cn', 'currenttweet', 'currenttweetuser', 'cxt', 'ref_src', 'ref_url', 'refsrc', 's', 't'),
     },
     {
      'path': ('/{user:word:1-20}/status/{id:digits}/mediaviewer',),
      'ignore_case': True,
      'write': '/{user|lower}/status/{id}',
      'keep': (),
     },
     {
      'path': ('/{user:word:1-20}/status/{id:digits}/mediaviewer/{rest+}',),
      'ignore_case': True,
      'write': '/{user|lower}/status/{id}',
      'keep': (),
     },
     {
      'path': ('/i/web/status/{id:digits}',),
      'ignore_case': True,
      'write': '/i/status/{id}',
      'drop': ('cn', 'currenttweet', 'currenttweetuser', 'cxt', 'ref_src', 'ref_url', 'refsrc', 's', 't'),
     },
     {
      'path': ('/{user:word:1-20}',),
      'not': {'user': ('search', 'home', 'explore', 'i', 'intent', 'share', 'settings', 'login')},
      'write': '/{user|lower}',
      'drop': ('lang', 'ref_src', 'ref_url'),
     },
    ),
   },
  ),
 },
 'youtube@2': {
  'blocks': (
   {
    'hosts': (
     ('youtube.com', 'www.youtube.com', 0, '', ()),
     ('m.youtube.com', 'www.youtube.com', 0, '', ()),
     ('youtube-nocookie.com', 'www.youtube.com', 0, '', ()),
     ('music.youtube.com', 'www.youtube.com', 1, '', ()),
     ('youtu.be', 'www.youtube.com', 2, '', ()),
    ),
    'https': True,
    'slash': 'strip',
    'drop': (
     'ab_channel', 'app', 'embeds_referring_euri', 'embeds_referring_origin', 'feature', 'pp', 'si',
     'source_ve_path',
    ),
    'pages': (
     {'path': ('/redirect',), 'query': {'q': '{url}'}, 'target': '{url|decode}'},
     {
      'path': ('/watch',),
      'query': {'v': '{id:id:1-20}', 't': '{time:digits}s'},
      'groups': (0, 1, 2),
      'write': '/watch?v={id}&t={time}',
      'keep': ('index', 'list', 't', 'v'),
     },
     {
      'path': ('/watch',),
      'query': {'v': '{id:id:1-20}'},
      'groups': (0, 1, 2),
      'write': '/watch?v={id}',
      'keep': ('index', 'list', 't', 'v'),
      'defaults': {'t': ('0', '0s')},
      'rename': {'start': 't'},
     },
     {
      'path': ('/watch',),
      'groups': (0, 1, 2),
      'write': '/watch',
      'keep': ('index', 'list', 't', 'v'),
      'defaults': {'t': ('0', '0s')},
      'rename': {'start': 't'},
     },
     {
      'path': ('/{folder=shorts|embed|live|v|e}/{id:id:1-20}',),
      'groups': (0, 2),
      'not': {'id': ('live_stream', 'videoseries', 'watch', 'playlist')},
      'write': '/watch?v={id}',
      'keep': ('index', 'list', 't', 'v'),
      'defaults': {'t': ('0', '0s')},
      'rename': {'start': 't'},
     },
     {
      'path': ('/playlist',),
      'query': {'list': '{list:id}'},
      'groups': (0, 1, 2),
      'write': '/playlist?list={list}',
     },
     {
      'path': ('/{id:id:1-20}',),
      'groups': (2,),
      'not': {'id': ('live_stream', 'videoseries', 'watch', 'playlist')},
      'write': '/watch?v={id}',
      'keep': ('index', 'list', 't', 'v'),
      'defaults': {'t': ('0', '0s')},
      'rename': {'start': 't'},
     },
     {'path': ('/',), 'groups': (0, 2), 'write': '/'},
     {
      'path': ('/@{handle:name}', '/@{handle:name}/featured'),
      'write': '/@{handle|lower}',
      'drop': ('sub_confirmation',),
     },
     {'path': ('/@{handle:name}/{rest+}',), 'write': '/@{handle|lower}/{rest}'},
     {'path': ('/{kind=channel|c|user}/{name}',), 'write': '/{kind}/{name}', 'drop': ('sub_confirmation',)},
    ),
   },
  ),
 },
 'zenodo@1': {
  'blocks': (
   {
    'hosts': (('zenodo.org', 'zenodo.org', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'pages': ({'path': ('/records/{id:digits}', '/record/{id:digits}'), 'write': '/records/{id}'},),
   },
  ),
 },
 'zhihu@1': {
  'blocks': (
   {
    'hosts': (('zhihu.com', 'www.zhihu.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('hybrid_search_extra', 'hybrid_search_source', 's_r', 's_s_i', 'share_code'),
   },
   {
    'hosts': (('zhuanlan.zhihu.com', 'zhuanlan.zhihu.com', 0, '', ()),),
    'https': True,
    'slash': 'strip',
    'drop': ('hybrid_search_extra', 'hybrid_search_source', 's_r', 's_s_i', 'share_code'),
   },
   {
    'hosts': (('link.zhihu.com', 'link.zhihu.com', 0, '', ()),),
    'https': True,
    'pages': ({'path': ('/',), 'query': {'target': '{url}'}, 'target': '{url|decode}'},),
   },
  ),
 },
}
